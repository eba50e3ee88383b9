//! What a config says of training.

mod check;
mod grpo;
mod loss;
mod supervised;

pub use self::grpo::{DynamicSampling, GrpoOptions, KlOptions};
pub use self::loss::{LossParameters, PolicyLoss};
pub use self::supervised::{SupervisedOptions, TrainedMessages};
