//! The loops that change weights.
//!
//! A run is one thing, whatever it learns from: `run` keeps steps, checkpoints, publication, the account of every token,
//! metrics and the stop rule. A way of training is a source of data (`sources`), an objective (`objectives`) and what it is
//! scored on (`evaluation`):
//!
//! - [`Grpo`]: tasks that are done in groups, or rewarded rollouts that are harvested ([`HarvestOptions`]), and the policy
//!   gradient; and the logprobs of teachers ([`Teachers`]).
//! - [`Sft`]: conversations and cross entropy, to teach a model.
//! - [`Preferences`]: comparisons of answers, and losses of which one is better.
//! - [`Supervised`]: conversations and cross entropy, to make a base model.
//!
//! [`Record`] is where a run reads and writes what happens: a store in this process, or over HTTP a server's
//! ([`RemoteRecord`]), behind whose proxy a [`RemotelyServedModel`] gets new weights. [`TrainEvent`], [`Reporter`]: what a
//! run tells while it goes on.

mod archive;
mod conversations;
mod directories;
mod error;
mod evaluation;
mod events;
mod grpo;
mod objectives;
mod options;
mod preferences;
mod publishing;
mod record;
mod rollouts;
mod run;
mod run_identity;
mod schedule;
mod sft;
mod soft_target_file;
mod sources;
mod supervised;
mod task_evaluation;
mod weights;

pub use archive::{ArchiveError, CheckpointArchive, RunArchive};
pub use conversations::{COMPARISON_KEYS, RowUnit, row_shape};
pub use error::{KeptBackReason, TrainError};
pub use evaluation::{
    Difference, Estimate, EvaluationOptions, Interval, SampleScore, ScoreComparison, ScoreSummary, Scores, StopRule,
    TaskScore, ValidationScores, bootstrap_interval, pass_at_k, recorded_scores,
};
pub use events::{Reporter, TrainEvent};
pub use grpo::{BesideFile, Grpo};
pub use objectives::{
    AdvantageOptions, Baseline, ComparedCalls, FollowingTeacher, KlPenalty, KlPlace, LossAggregation, PerCall,
    PolicyDataError, PolicyMetrics, Reference, STANDARD_DEVIATION_FLOOR, Spread, Teachers, batch_advantages, distill,
    penalize_kl, policy_metrics, rollout_metrics, split_into_substeps,
};
pub use options::{
    ConversationForm, ConversationsBeside, DataSource, DistillationLoss, DistillationOptions, KlOptions,
    LossParameters, LossReduction, ObjectiveName, PairwiseOptions, PolicyLoss, PreferenceOptions, SamplingSchedule,
    SupervisedOptions, TrainOn, TrainedMessages, TrainerOptions, Untaught, UnusableRows, Validation,
};
pub use preferences::Preferences;
pub use publishing::{HeldWeights, PolicyEndpoint, PublishRule, WeightsAtStart};
pub use record::{Record, RecordError, RemoteRecord, RemotelyServedModel};
pub use rollouts::{
    Decode, FailureOptions, Failures, GroupJudge, PairwiseJudge, RewardFinding, RewardOddity, RewardRules,
    SampleAnswer, StaleRollouts, is_constant,
};
pub use run::{RunSummary, updates_from_checkpoint};
pub use run_identity::RunIdentity;
pub use schedule::LearningRateSchedule;
pub use sft::{ConversationsFile, Sft, SftData};
pub use soft_target_file::SoftTargetFile;
pub use sources::{DynamicSampling, HarvestOptions, TaskForm, TaskSource, Tasks};
pub use supervised::{Supervised, SupervisedResult};
pub use task_evaluation::{EVALUATION_KIND, EvaluatedTasks, TaskEvaluation};
