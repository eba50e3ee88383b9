//! What a config says of training.

mod check;
mod check_checkpoints;
mod check_sampling;
mod conversations_beside;
mod distillation;
mod keys_by_objective;
mod loss;
mod objective_name;
mod preference;
mod refusal;
mod sft;
mod supervised;
mod trainer;

pub use self::conversations_beside::ConversationsBeside;
pub use self::distillation::{DistillationLoss, DistillationOptions, Untaught};
pub use self::loss::{LossParameters, PolicyLoss};
pub use self::objective_name::ObjectiveName;
pub use self::preference::{PairwiseOptions, PreferenceOptions};
pub use self::sft::{ConversationForm, DataSource, LossReduction, TrainOn, UnusableRows, Validation};
pub use self::supervised::{SupervisedOptions, TrainedMessages};
pub use self::trainer::{KlOptions, SamplingSchedule, TrainerOptions};
