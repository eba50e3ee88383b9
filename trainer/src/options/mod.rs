//! What a config says of training.

mod advantages;
mod check;
mod check_checkpoints;
mod check_sampling;
mod conversations_beside;
mod distillation;
mod dynamic_sampling;
mod evaluation;
mod failures;
mod harvest;
mod keys_by_objective;
mod kl;
mod loss;
mod objective_name;
mod preference;
mod refusal;
mod rewards;
mod schedule;
mod sft;
mod supervised;
mod trainer;

pub use self::advantages::{
    AdvantageOptions, Baseline, ComparedCalls, LossAggregation, PerCall, STANDARD_DEVIATION_FLOOR, Spread,
};
pub use self::conversations_beside::ConversationsBeside;
pub use self::distillation::{DistillationLoss, DistillationOptions, Untaught};
pub use self::dynamic_sampling::DynamicSampling;
pub use self::evaluation::{EvaluationOptions, StopRule};
pub use self::failures::FailureOptions;
pub use self::harvest::{HarvestOptions, PublishRule};
pub use self::kl::{KlOptions, KlPlace};
pub use self::loss::{LossParameters, PolicyLoss};
pub use self::objective_name::ObjectiveName;
pub use self::preference::{PairwiseOptions, PreferenceOptions};
pub(crate) use self::rewards::RewardBounds;
pub use self::rewards::RewardRules;
pub use self::schedule::LearningRateSchedule;
pub use self::sft::{ConversationForm, DataSource, LossReduction, TrainOn, UnusableRows, Validation};
pub use self::supervised::{SupervisedOptions, TrainedMessages};
pub use self::trainer::{SamplingSchedule, TrainerOptions};
