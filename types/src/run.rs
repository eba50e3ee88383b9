use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TokenUse;

/// What it takes to begin a training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewRun {
    /// Unique in the store.
    pub run_id: String,
    /// For people.
    pub name: String,
    /// The whole configuration.
    pub config: Value,
    /// The seed of everything random in it.
    pub seed: u64,
}

/// A training run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Unique in the store.
    pub run_id: String,
    /// For people.
    pub name: String,
    /// The whole configuration.
    pub config: Value,
    /// The seed of everything random in it.
    pub seed: u64,
    /// When it was begun.
    pub start_time: f64,
    /// Updates that it may make before it waits for leave to make more; without it, as many as its config says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_steps: Option<u64>,
}

/// A process that trains a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOwner {
    /// No other process has it.
    pub owner_id: String,
    /// Name of its machine, for people.
    pub host: String,
    /// Its number on that machine.
    pub pid: u64,
    /// The run's directory, for people.
    pub directory: String,
    /// What shows another process of the same machine whether it has ended.
    #[serde(default)]
    pub traces: Value,
}

/// A process asks for a run, or keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunClaim {
    /// The run.
    pub run_id: String,
    /// Who asks.
    pub owner: RunOwner,
    /// How long the run is that process's, from now on. With 0 it is given back.
    pub seconds: f64,
    /// `owner_id` of a process that is known to have ended: the run is taken over from it at once.
    #[serde(default)]
    pub ended_owner: Option<String>,
}

/// Which process has a run, and until when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunLease {
    /// The run.
    pub run_id: String,
    /// Who has it.
    pub owner: RunOwner,
    /// When that process first got it.
    pub start_time: f64,
    /// Until when it has it, unless it renews that. In the past, anybody may have the run.
    pub end_time: f64,
    /// Seconds until then, by the clock of the store.
    pub seconds_left: f64,
}

/// What became of sampled tokens in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationUse {
    /// Whose tokens.
    pub generation_id: String,
    /// What became of them.
    pub cause: TokenUse,
    /// How many. Over all causes not more than the generation has sampled tokens.
    pub tokens: u64,
}

/// What a teacher made of a generation's tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TeacherLogprobs {
    /// Whose tokens.
    pub generation_id: String,
    /// The teacher's name.
    pub teacher: String,
    /// The teacher's logprob of each sampled token.
    pub logprobs: Vec<f32>,
}

/// What a teacher made of a generation's tokens, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedTeacherLogprobs {
    /// The run that asked for it.
    pub run_id: String,
    /// What it was told.
    #[serde(flatten)]
    pub values: TeacherLogprobs,
}

/// A checkpoint to be recorded with its step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// Where weights and optimizer state are.
    pub directory: String,
    /// Everything else that continuing takes: data cursor, random state.
    pub state: Value,
}

/// A training step to be recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The run.
    pub run_id: String,
    /// Unique in the run.
    pub step: u64,
    /// Whatever was measured.
    pub metrics: Value,
    /// The weights after it.
    pub weights_version: u64,
    /// What became of the tokens that it consumed.
    pub uses: Vec<GenerationUse>,
    /// What teachers made of its tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub teacher_logprobs: Vec<TeacherLogprobs>,
    /// The checkpoint that was written after it, if one was.
    pub checkpoint: Option<CheckpointRecord>,
}

/// A training step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The run.
    pub run_id: String,
    /// Unique in the run.
    pub step: u64,
    /// When it was recorded.
    pub time: f64,
    /// Whatever was measured.
    pub metrics: Value,
    /// The weights after it.
    pub weights_version: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The run.
    pub run_id: String,
    /// The step after which it was written.
    pub step: u64,
    /// When it was recorded.
    pub time: f64,
    /// The weights that it holds.
    pub weights_version: u64,
    /// Where weights and optimizer state are.
    pub directory: String,
    /// Everything else that continuing takes.
    pub state: Value,
}

/// How many sampled tokens went where. Over all rows of a ledger, `tokens` sums to all sampled tokens in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerRow {
    /// What became of them.
    pub cause: TokenUse,
    /// Generations with this cause; for [`TokenUse::Unaccounted`], those that the run has not accounted for at all.
    pub generations: u64,
    /// Sampled tokens.
    pub tokens: u64,
}

/// A generation of which a run has not said what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnaccountedGeneration {
    /// Whose tokens.
    pub generation_id: String,
    /// Its rollout.
    pub rollout_id: String,
    /// How many tokens were sampled.
    pub sampled_tokens: u64,
}

/// Calls of a model that are not of one run's own rollouts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherCallers {
    /// When the last such call ended, if one did within the time that was asked about.
    pub last_call: Option<f64>,
    /// Rollouts in the queue, whose agents will call.
    pub waiting: u64,
    /// Rollouts that were handed out or heard of within that time and have not ended, whose agents may be calling.
    pub running: u64,
}

impl OtherCallers {
    /// Whether somebody calls the model, or will.
    pub fn are_there(&self) -> bool {
        self.last_call.is_some() || self.waiting > 0 || self.running > 0
    }
}
