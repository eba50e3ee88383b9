use crate::TrainError;

/// A key whose value cannot be.
pub(super) fn refuse<T>(key: &str, value: impl std::fmt::Display, message: &str) -> Result<T, TrainError> {
    Err(TrainError::Option { key: key.to_owned(), message: format!("is {value}, but {message}") })
}
