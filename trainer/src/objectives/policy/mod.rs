//! The policy gradient: rewards become advantages, advantages a loss.

mod adaptive;
mod credit;
mod drift_causes;
mod importance_mask;
mod kl_loss;
mod kl_penalty;
mod minibatches;
mod policy_gradient;
mod policy_metrics;
mod rollout_metrics;
mod staleness;
mod substeps;
mod teaching;
mod top_entropy;
mod trajectories;
#[cfg(test)]
pub(crate) mod vectors;

pub use self::credit::batch_advantages;
pub(crate) use self::drift_causes::Origins;
pub use self::kl_penalty::{KlPenalty, distill, penalize_kl};
pub(crate) use self::minibatches::Minibatches;
pub(crate) use self::policy_gradient::{Kl, PolicyGradient, report_odd_rewards};
pub(crate) use self::policy_metrics::GREATEST_LOGPROB_DIFFERENCE;
pub use self::policy_metrics::{PolicyMetrics, policy_metrics};
pub use self::rollout_metrics::rollout_metrics;
pub use self::substeps::split_into_substeps;
pub(crate) use self::teaching::CONCURRENCY;
pub use self::teaching::{FollowingTeacher, Teachers};
pub(crate) use self::trajectories::Credit;
