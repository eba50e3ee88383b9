use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    Attempt, Generation, RecordedTeacherLogprobs, ResourcesUpdate, Rollout, Run, Span, Step, TokenUse, Worker,
};

/// One record of an archive, from which a store can be made again. In JSON: `{"record": "attempt", "data": {..}}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", content = "data", rename_all = "snake_case")]
pub enum ArchiveRecord {
    /// A training run.
    Run(Run),
    /// A training step; its run comes before it.
    Step(Step),
    /// A checkpoint; its step comes before it.
    Checkpoint(ArchivedCheckpoint),
    /// Resources.
    Resources(ResourcesUpdate),
    /// A worker.
    Worker(Worker),
    /// A rollout.
    Rollout(ArchivedRollout),
    /// An attempt; its rollout comes before it.
    Attempt(Attempt),
    /// What Agent-lightning's gateway (1.0) knows of a rollout, which comes before it.
    GatewayRollout(ArchivedGatewayRollout),
    /// A span that is not of a generation; its attempt comes before it.
    Span(Box<Span>),
    /// A generation with its span; its attempt and the generation that it continues come before it.
    Generation(Box<ArchivedGeneration>),
    /// What became of a generation's tokens; generation and run come before it.
    GenerationUse(ArchivedUse),
    /// What a teacher made of a generation's tokens; generation and run come before it.
    TeacherLogprobs(RecordedTeacherLogprobs),
}

/// A checkpoint as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedCheckpoint {
    /// The run.
    pub run_id: String,
    /// The step after which it was written.
    pub step: u64,
    /// Where weights and optimizer state are. The files are not in the archive.
    pub directory: String,
    /// Everything else that continuing takes.
    pub state: Value,
}

/// A rollout, with what no reader of it sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedRollout {
    /// The rollout.
    #[serde(flatten)]
    pub rollout: Rollout,
    /// Its place in the queue, while it is there.
    pub queue_position: Option<i64>,
    /// The last sequence id that was given for its spans; 0 if none was.
    pub last_sequence_id: u64,
    /// Its place among those that have finished, in the order in which they did.
    #[serde(default)]
    pub completion_position: Option<i64>,
}

/// What Agent-lightning's gateway (1.0) knows of a rollout and nothing else does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedGatewayRollout {
    /// The rollout.
    pub rollout_id: String,
    /// How its agent is started as a process.
    pub local_config: Option<Value>,
    /// How its agent is started as a job of Kubernetes.
    pub k8s_config: Option<Value>,
    /// That job.
    pub k8s_job_name: Option<String>,
    /// The attempt that counts.
    pub last_attempt_id: Option<String>,
    /// Why it failed.
    pub error_message: Option<String>,
    /// Counts its changes.
    pub version: i64,
    /// When it was last changed.
    pub updated_at: f64,
}

/// A generation and its span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedGeneration {
    /// The generation, with its whole prompt.
    #[serde(flatten)]
    pub generation: Generation,
    /// Its span, with the messages of its conversation and without the attributes that are made of its tokens.
    pub span: Span,
}

/// What became of sampled tokens in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedUse {
    /// The run.
    pub run_id: String,
    /// Whose tokens.
    pub generation_id: String,
    /// What became of them.
    pub cause: TokenUse,
    /// The step that used them, if one did.
    pub step: Option<i64>,
    /// How many.
    pub tokens: u64,
}

/// What an archive holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveScope {
    /// Everything.
    All,
    /// Rollouts and attempts.
    Rollouts,
    /// Spans, those of generations included, with their tokens as attributes.
    Spans,
    /// Generations with their spans.
    Generations,
}

/// How an import went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// Records that were not there before.
    pub new: u64,
    /// Records that were there already; they were left as they are.
    pub known: u64,
}
