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
//!
//! Folders import only those below them: the ways of training, `run`, `evaluation`, `objectives`, `sources`, `events`,
//! `scores`, `rollouts`, `conversations`, `options`, `error`.

mod archive;
mod conversations;
mod data_report;
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
mod run_summary;
mod schedule;
mod scores;
mod sft;
mod soft_target_file;
mod sources;
mod supervised;
mod task_evaluation;
mod weights;

pub use archive::{ArchiveError, CheckpointArchive, RunArchive};
pub use conversations::{COMPARISON_KEYS, CONVERSATION_KEYS, LINE_LIMIT, RowUnit};
pub use data_report::{
    DataCheck, DataPart, DataReport, LeftOut, Lengths, MixtureReads, ShownPart, ShownRow, ShownSequence,
};
pub use error::{Failures, KeptBackReason, PolicyDataError, TrainError};
pub use events::{Reporter, TrainEvent};
pub use grpo::{AuxiliaryFile, Grpo};
pub use objectives::{
    FollowingTeacher, KlPenalty, PolicyMetrics, Reference, Teachers, batch_advantages, distill, penalize_kl,
    policy_metrics, rollout_metrics, split_into_substeps,
};
pub use options::{
    AdvantageOptions, AuxiliaryConversationOptions, Baseline, CommonOptions, ComparedAnswers, ComparedCalls,
    ComparisonPlan, ConversationForm, ConversationPlan, DataOptions, DataSource, DistillationLoss, DistillationOptions,
    DpoLoss, DpoOptions, DpoTerm, DpoTermLoss, DynamicSampling, EvaluationOptions, FailureOptions, FinalWeights,
    GrpoOptions, HarvestOptions, IpoOptions, KlOptions, KlPlace, KtoOptions, LearningRateSchedule, LossAggregation,
    LossParameters, LossReduction, LossTerms, MixedFile, MixtureUnit, ObjectiveName, ObjectiveOptions,
    OffPolicyDistillationOptions, OnPolicyDistillationOptions, OnlyTeacher, OrpoOptions, Packing, PairwiseOptions,
    PairwiseReward, PerCall, PolicyLoss, Portion, PreferenceOptions, PublishRule, ReasoningUse, RewardHead,
    RewardModelOptions, RewardRules, RolloutOptions, RolloutPlan, RowKind, STANDARD_DEVIATION_FLOOR, SamplingSchedule,
    SftOptions, SimpoOptions, Spread, StopRule, SupervisedOptions, TrainOn, TrainedMessages, TrainerOptions,
    TrainingPlan, Truncation, Untaught, UnusableRows, UpdateCount, Validation,
};
pub use preferences::Preferences;
pub use publishing::{HeldWeights, PolicyEndpoint, WeightsAtStart};
pub use record::{Record, RecordError, RemoteRecord, RemotelyServedModel};
pub use rollouts::{
    AnswerScores, Decode, GroupJudge, PairwiseJudge, RewardFinding, RewardOddity, SampleAnswer, StaleRollouts,
    is_constant,
};
pub use run::{KeptCheckpointsAt, MissingFiles, ResumePoint, require_steps};
pub use run_identity::RunIdentity;
pub use run_summary::{BestWeights, RunSummary};
pub use scores::{
    Difference, Estimate, Interval, SampleScore, ScoreComparison, ScoreSummary, Scores, TaskScore, ValidationScores,
    bootstrap_interval, pass_at_k, recorded_scores,
};
pub use sft::{ConversationsFile, HeldOutFile, MixtureFile, Sft, SftData};
pub use soft_target_file::SoftTargetFile;
pub use sources::{TaskForm, TaskSource, Tasks};
pub use supervised::{Supervised, SupervisedResult};
pub use task_evaluation::{EVALUATION_KIND, EvaluatedTasks, TaskEvaluation};
