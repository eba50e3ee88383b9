//! What a config says of training: `[trainer]`, one flat table, of which each objective has its own keys.

mod flat;
mod keys;
mod objective;
mod objectives;
mod plan;
mod policy;
mod shared;
#[cfg(test)]
mod tests;
mod trainer;

pub use self::keys::auxiliary_conversations::AuxiliaryConversationOptions;
pub use self::keys::data_source::{
    ConversationForm, DataSource, LossReduction, MixedFile, MixtureUnit, Packing, Portion, ReasoningUse, TrainOn,
    Truncation, UnusableRows, Validation,
};
pub use self::keys::distillation::{DistillationLoss, DistillationOptions, Untaught};
pub use self::keys::evaluation::{EvaluationOptions, FinalWeights, StopRule};
pub use self::keys::failures::FailureOptions;
pub use self::keys::harvest::{HarvestOptions, PublishRule};
pub use self::keys::objective_name::ObjectiveName;
pub use self::keys::preference::{
    DpoLoss, DpoTerm, DpoTermLoss, PairwiseOptions, PairwiseReward, PreferenceOptions, RewardHead,
};
pub use self::keys::schedule::{LearningRateSchedule, UpdateCount};
pub use self::objective::ObjectiveOptions;
pub use self::objectives::dpo::DpoOptions;
pub use self::objectives::grpo::GrpoOptions;
pub use self::objectives::ipo::IpoOptions;
pub use self::objectives::kto::KtoOptions;
pub use self::objectives::off_policy_distillation::{OffPolicyDistillationOptions, OnlyTeacher};
pub use self::objectives::on_policy_distillation::OnPolicyDistillationOptions;
pub use self::objectives::orpo::OrpoOptions;
pub use self::objectives::reward_model::RewardModelOptions;
pub use self::objectives::sft::SftOptions;
pub use self::objectives::simpo::SimpoOptions;
pub use self::plan::{ComparedAnswers, ComparisonPlan, ConversationPlan, RolloutPlan, RowKind, TrainingPlan};
pub use self::policy::advantages::{
    AdvantageOptions, Baseline, ComparedCalls, LossAggregation, PerCall, STANDARD_DEVIATION_FLOOR, Spread,
};
pub(crate) use self::policy::check_sampling::temperature_of;
pub use self::policy::dynamic_sampling::DynamicSampling;
pub use self::policy::kl::{KlOptions, KlPlace};
pub use self::policy::loss::{LossParameters, PolicyLoss};
pub(crate) use self::policy::rewards::RewardBounds;
pub use self::policy::rewards::RewardRules;
pub use self::policy::sampling_schedule::SamplingSchedule;
pub use self::shared::common::CommonOptions;
pub use self::shared::data::DataOptions;
pub use self::shared::loss_terms::LossTerms;
pub(crate) use self::shared::rollouts::MAX_STEPS;
pub use self::shared::rollouts::RolloutOptions;
pub use self::shared::supervised::{SupervisedOptions, TrainedMessages};
pub use self::trainer::TrainerOptions;
