//! The loops that change weights.
//!
//! - [`Grpo`]: group-relative policy optimisation driven through the store: enqueue groups of rollouts, wait for
//!   whoever runs them, turn what was recorded into datums, update, put the new weights behind the sampler, evaluate.
//! - [`HarvestOptions`]: the same loop over rewarded rollouts of agents that live a life of their own.
//! - [`train_supervised`]: cross entropy on conversations, to make a base model.
//! - [`Record`]: where a loop reads and writes what happens: a store in this process, or over HTTP a server's
//!   ([`RemoteRecord`]), behind whose proxy a [`RemotelyServedModel`] gets new weights.
//! - [`TrainEvent`], [`Reporter`]: what a loop tells while it runs.
//!
//! Pure parts: `advantages`, `policy_metrics`, `rollout_metrics`, `task_order`, `accounting` (why a sampled token was
//! not trained).

mod accounting;
mod advantages;
mod batch;
mod checkpoints;
mod collection;
mod error;
mod events;
mod failures;
mod grpo;
mod harvest;
mod metrics_file;
mod options;
mod options_check;
mod policy_metrics;
mod publishing;
mod record;
mod reward_check;
mod rollout_metrics;
mod served_model;
mod summary;
mod supervised;
mod task_order;
mod tasks;
mod without_gradient;

pub use advantages::{
    AdvantageOptions, Baseline, KlPenalty, STANDARD_DEVIATION_FLOOR, group_advantages, is_constant, penalize_kl,
    split_into_substeps,
};
pub use error::TrainError;
pub use events::{Reporter, TrainEvent};
pub use failures::Failures;
pub use grpo::{Grpo, RunIdentity};
pub use harvest::HarvestOptions;
pub use options::{EvaluationOptions, GrpoOptions, StopRule};
pub use policy_metrics::{PolicyDataError, PolicyMetrics, policy_metrics};
pub use publishing::PolicyEndpoint;
pub use record::{Record, RecordError, RemoteRecord};
pub use reward_check::{RewardFinding, RewardOddity};
pub use rollout_metrics::rollout_metrics;
pub use served_model::RemotelyServedModel;
pub use summary::{RunSummary, Scores};
pub use supervised::{SupervisedOptions, SupervisedResult, TrainedMessages, train_supervised};
pub use tasks::{TaskForm, TaskSource, Tasks};
pub use without_gradient::{Decode, SampleAnswer};
