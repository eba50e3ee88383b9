use std::fmt;
use std::path::PathBuf;

use fulgurite_adapters::AdapterError;
use fulgurite_backends::BackendError;
use fulgurite_renderers::RenderError;

use super::failures::Failures;
use super::policy_data::PolicyDataError;
use crate::{ArchiveError, RecordError};

/// Why new weights were not put behind a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KeptBackReason {
    /// Held-out conversations cost more under them.
    Worse,
    /// What they learnt from was moved further than may be.
    MovedTooFar {
        /// Nats a token.
        max_kl: f64,
    },
}

impl fmt::Display for KeptBackReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worse => formatter.write_str("were each worse on [trainer] harvest.validation than"),
            Self::MovedTooFar { max_kl } => {
                write!(formatter, "each left [trainer] publish_max_kl = {max_kl} nats a token between themselves and")
            }
        }
    }
}

/// Why training could not go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A file cannot be read or written.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A set of tasks holds none.
    #[error("[tasks] {set} holds no tasks (of a range the first number is included, and the second is not)")]
    NoTasks {
        /// Which set.
        set: String,
    },
    /// A set of tasks is larger than anybody means.
    #[error("[tasks] {set} is a range of {count} tasks, and may be one of {most} at most")]
    TooManyTasks {
        /// Which set.
        set: String,
        /// Tasks in it.
        count: u64,
        /// Tasks that there may be.
        most: u64,
    },
    /// A number in the options cannot work.
    #[error("{key} {message}")]
    Option {
        /// The key.
        key: String,
        /// What is wrong with it.
        message: String,
    },
    /// Not one rollout of a batch succeeded, so something is wrong with the agent rather than with the policy.
    #[error("all {} rollouts of {phase} at step {step} failed; the most frequent reason: {failures}", failures.rollouts)]
    EveryRolloutFailed {
        /// `train` or an evaluation.
        phase: String,
        /// The step.
        step: u64,
        /// What most attempts said.
        failures: Box<Failures>,
    },
    /// Nothing could be learnt from many batches one after another.
    #[error(
        "{updates} updates in a row had nothing to learn from, and [trainer] stop_without_gradient is {limit}: `fulgurite \
         doctor RUN` tells why; --resume goes on, with a greater number or 0, which never stops"
    )]
    WithoutGradient {
        /// The updates.
        updates: u64,
        /// As many are too many.
        limit: u64,
    },
    /// Steps of many updates one after another were left out.
    #[error(
        "{updates} updates in a row left out a step whose gradient was a spike: its norm was no number{}. \
         [trainer] stop_after_spikes ends a run then: look at the data of these updates, lower learning_rate, or raise \
         spike_factor, which is {factor}; --resume goes on from the last checkpoint",
        bound.map_or(String::new(), |bound| format!(", or above {bound:.3}"))
    )]
    Spikes {
        /// The updates.
        updates: u64,
        /// `[trainer] spike_factor`
        factor: f64,
        /// What a norm may be at most, once that is known.
        bound: Option<f64>,
    },
    /// The weights have left all bounds.
    #[error(
        "the weights have diverged: a token of step {step} costs {nll:.1} nats, and {first:.1} at the beginning: \
         lower [trainer] learning_rate; `--resume` goes on from the last checkpoint, which may be of diverged weights too"
    )]
    Diverged {
        /// The step.
        step: u64,
        /// What a token of its rows, or one that was sampled for it, costs.
        nll: f64,
        /// What one of the first cost.
        first: f64,
    },
    /// A judge of comparisons says no letter.
    #[error(
        "the judge of [trainer] pairwise said neither letter of {undecided} of {comparisons} comparisons, so that nothing \
         can be learnt of them (it said {answer:?}; pairwise.undecided_limit = {limit}): name a model that objective = \
         \"reward_model\" has trained"
    )]
    JudgeUndecided {
        /// Comparisons without a letter.
        undecided: u64,
        /// All comparisons of the batch.
        comparisons: u64,
        /// The greatest share of them that may have none.
        limit: f64,
        /// What it said in place of one.
        answer: String,
    },
    /// Not one rollout of a batch called the model, so there is no token that could be trained or scored.
    #[error(
        "none of the {rollouts} rollouts of {phase} at step {step} called the model `{model}`: {others}. The agent must \
         take its base URL from OPENAI_BASE_URL or ANTHROPIC_BASE_URL in its environment, its key from OPENAI_API_KEY or \
         ANTHROPIC_API_KEY, and ask for the model `{model}`; look for a URL that is written into its code, a .env file or \
         a client's own settings, which would come before these"
    )]
    NoModelCalls {
        /// How many.
        rollouts: usize,
        /// `train` or an evaluation.
        phase: String,
        /// The step.
        step: u64,
        /// What agents call the policy.
        model: String,
        /// What was recorded instead.
        others: String,
    },
    /// What is behind the model is too old for what agents say to be learnt from.
    #[error(
        "the last {updates} updates {reason} the weights behind the model, \
         version {version}, and were kept back (publish_if); with harvest.max_staleness = {most} nothing that is sampled \
         from those can be learnt from any more. A new run with a lower learning_rate may do better; --resume goes on with \
         a greater max_staleness, or with publish_if = \"always\""
    )]
    KeptBack {
        /// Updates since.
        updates: u64,
        /// What is behind the model.
        version: u64,
        /// What `harvest.max_staleness` allows.
        most: u64,
        /// Why they were kept back.
        reason: KeptBackReason,
    },
    /// A teacher cannot be asked.
    #[error("the teacher `{name}` ([trainer] distillation): {source}")]
    Teacher {
        /// Its name.
        name: String,
        /// What is wrong.
        source: Box<BackendError>,
    },
    /// A teacher tells no token that it takes for likely, or no number of it.
    #[error(
        "the teacher `{name}` ([trainer] distillation) tells no likely token of the model's vocabulary for some place"
    )]
    TeacherWithoutTargets {
        /// Its name.
        name: String,
    },
    /// A teacher is asked by tokens, and an image has none.
    #[error("the teacher `{name}` ([trainer] distillation) cannot be asked about conversations with images")]
    TeacherOfImages {
        /// Its name.
        name: String,
    },
    /// Whoever runs the agents is gone.
    #[error("the runner is gone: {message}")]
    RunnerEnded {
        /// What was seen.
        message: String,
    },
    /// A row of a file of conversations cannot be trained on.
    #[error("{path} {unit} {number}: {message}")]
    Row {
        /// The file.
        path: PathBuf,
        /// `line` or `row`.
        unit: &'static str,
        /// From 1.
        number: u64,
        /// What is wrong.
        message: String,
    },
    /// A recorded rollout cannot be trained on.
    #[error("rollout {rollout_id} {message}")]
    Rollout {
        /// Which one.
        rollout_id: String,
        /// What is wrong.
        message: String,
    },
    /// No recorded rollout can be trained on.
    #[error("[trainer] source.rollouts: {looked_at} rollouts are meant, and none of them can be trained on")]
    NoRollouts {
        /// How many were looked at.
        looked_at: usize,
    },
    /// No recorded rollouts can be compared.
    #[error(
        "[trainer] source.rollouts: {looked_at} rollouts are meant, and no two of them that can be trained on are of one \
         group, or of one input, and earned differently"
    )]
    NoComparisons {
        /// How many were looked at.
        looked_at: usize,
    },
    /// A run goes on with another reference than it began with.
    #[error(
        "the reference is {now}, and that of the run's checkpoint was {before}: begin a new run, or put back what was there"
    )]
    ReferenceChanged {
        /// What is there.
        now: String,
        /// What was there.
        before: String,
    },
    /// A run goes on with other data than it began with.
    #[error(
        "the conversations are not those that the run's checkpoint was made with, so that its place among them means \
         nothing; begin a new run, or put back what was there"
    )]
    DataChanged,
    /// A line of the corpus cannot be trained on.
    #[error("corpus line {line}: {message}")]
    Corpus {
        /// From 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The base did not get where it must be within its steps.
    #[error(
        "after {steps} steps the validation accuracy is {accuracy:.3}, below {wanted}; raise [base] max_steps or change its shape or seed"
    )]
    BaseNotLearnt {
        /// Steps made.
        steps: u64,
        /// What was reached.
        accuracy: f64,
        /// What was wanted.
        wanted: f64,
    },
    /// The checkpoint's record does not fit this run.
    #[error("checkpoint {directory}: {message}")]
    Checkpoint {
        /// Where it is.
        directory: String,
        /// What is wrong.
        message: String,
    },
    /// The run is known by its directory, and not by the record.
    #[error(
        "run {run_id} has recorded steps in another store: {} has {steps} of them, and this store none. Name its own store, or \
         begin a new run",
        path.display()
    )]
    OtherStore {
        /// The run.
        run_id: String,
        /// The file that tells of its steps.
        path: PathBuf,
        /// How many.
        steps: usize,
    },
    /// A run has checkpoints, but none that it can go on from.
    #[error(
        "no checkpoint of run {run_id} is left to resume from: {message}; a new run begins without --resume, and a \
         larger [trainer] keep_checkpoints leaves more to fall back to"
    )]
    NoCheckpointLeft {
        /// The run.
        run_id: String,
        /// What is wrong with each.
        message: String,
    },
    /// Checkpoints cannot be read from the object store that keeps them.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The conversations cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// What was recorded cannot become datums.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
    /// The learner's answer does not fit the batch.
    #[error(transparent)]
    PolicyData(#[from] PolicyDataError),
    /// The model host failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The record cannot be read or written.
    #[error(transparent)]
    Record(#[from] RecordError),
}
