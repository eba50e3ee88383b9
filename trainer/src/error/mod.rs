//! Why training cannot go on.

mod failures;
mod policy_data;
mod train_error;

pub use self::failures::Failures;
pub use self::policy_data::PolicyDataError;
pub use self::train_error::{KeptBackReason, TrainError};
