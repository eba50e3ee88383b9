use crate::TrainError;

/// A key whose value cannot be.
pub(crate) fn refuse<T>(key: &str, value: impl std::fmt::Display, message: &str) -> Result<T, TrainError> {
    wrong(key, format!("is {value}, but {message}"))
}

/// A key with which something is wrong.
pub(crate) fn wrong<T>(key: &str, message: impl Into<String>) -> Result<T, TrainError> {
    Err(TrainError::Option { key: key.to_owned(), message: message.into() })
}

/// Refuses a number that is less than `least`.
pub(crate) fn least(key: &str, value: u64, least: u64, why: &str) -> Result<(), TrainError> {
    if value >= least { Ok(()) } else { refuse(key, value, &format!("must be at least {least}: {why}")) }
}

/// Refuses what no step size can be, nor what else scales something.
pub(crate) fn positive(key: &str, value: f64) -> Result<(), TrainError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    refuse(key, value, "must be a finite number above 0, such as 1e-4")
}

/// Refuses what is to be above 0.
pub(crate) fn positive_number(key: &str, value: f64) -> Result<(), TrainError> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { refuse(key, value, "must be a finite number above 0") }
}

/// Refuses what nothing can count.
pub(crate) fn not_negative(key: &str, value: f64) -> Result<(), TrainError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    refuse(key, value, "must be a finite number of at least 0")
}

/// Refuses what no share can be that something keeps.
pub(crate) fn share(key: &str, value: f64) -> Result<(), TrainError> {
    if (0.0..1.0).contains(&value) { Ok(()) } else { refuse(key, value, "must be at least 0 and below 1") }
}

/// Refuses what weights cannot be drawn to zero by.
pub(crate) fn decay(key: &str, value: f64) -> Result<(), TrainError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    refuse(key, value, "must be a finite number of at least 0; 0 leaves the weights as they are")
}

/// Refuses what no greatest norm can be.
pub(crate) fn norm(key: &str, value: f64) -> Result<(), TrainError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    refuse(key, value, "must be a finite number of at least 0; 0 does not clip")
}
