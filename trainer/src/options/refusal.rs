use crate::TrainError;

/// A key whose value cannot be.
pub(super) fn refuse<T>(key: &str, value: impl std::fmt::Display, message: &str) -> Result<T, TrainError> {
    Err(TrainError::Option { key: key.to_owned(), message: format!("is {value}, but {message}") })
}

/// Refuses a number that is less than `least`.
pub(super) fn least(key: &str, value: u64, least: u64, why: &str) -> Result<(), TrainError> {
    if value >= least { Ok(()) } else { refuse(key, value, &format!("must be at least {least}: {why}")) }
}
