//! What is learnt from a run's data.

mod advantages;
mod aggregation;
mod conversation_loss;
mod cross_entropy;
mod kl_penalty;
mod objective;
mod policy_gradient;
mod policy_metrics;
mod reference;
mod rollout_metrics;
mod substeps;
mod trajectories;
#[cfg(test)]
mod vectors;

pub use self::advantages::{
    AdvantageOptions, Baseline, STANDARD_DEVIATION_FLOOR, Spread, batch_advantages, is_constant,
};
pub use self::aggregation::LossAggregation;
pub(crate) use self::conversation_loss::{ConversationLoss, TokenScores, data_of};
pub(crate) use self::cross_entropy::CrossEntropy;
pub use self::kl_penalty::{KlPenalty, penalize_kl};
pub(crate) use self::objective::{Lesson, Objective, Pass};
pub(crate) use self::policy_gradient::{PolicyGradient, report_odd_rewards};
pub(crate) use self::policy_metrics::GREATEST_LOGPROB_DIFFERENCE;
pub use self::policy_metrics::{PolicyDataError, PolicyMetrics, policy_metrics};
pub use self::reference::Reference;
pub use self::rollout_metrics::rollout_metrics;
pub use self::substeps::split_into_substeps;
pub(crate) use self::trajectories::Credit;
