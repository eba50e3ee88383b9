use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::present::present;
use crate::text::words::words;
use crate::{AttemptStatus, Object};

words! {
    /// Where a rollout stands.
    RolloutStatus {
        /// Waits in the queue for its first attempt.
        Queuing = "queuing",
        /// A worker has taken it; its agent has not been heard of yet.
        Preparing = "preparing",
        /// Its agent has been heard of.
        Running = "running",
        /// Ended without success, no attempt left.
        Failed = "failed",
        /// Ended well.
        Succeeded = "succeeded",
        /// Ended from outside.
        Cancelled = "cancelled",
        /// Waits in the queue for another attempt.
        Requeuing = "requeuing",
    }
}

impl RolloutStatus {
    /// Failed, succeeded or cancelled.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Failed | Self::Succeeded | Self::Cancelled)
    }

    /// Queuing or requeuing.
    pub fn is_queued(self) -> bool {
        matches!(self, Self::Queuing | Self::Requeuing)
    }
}

words! {
    /// What a rollout is for.
    RolloutMode {
        /// Training.
        Train = "train",
        /// Validation.
        Val = "val",
        /// Testing.
        Test = "test",
    }
}

/// How long an attempt may take and what happens when it fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RolloutConfig {
    /// An attempt that takes longer becomes `timeout`. `None`: no limit.
    pub timeout_seconds: Option<f64>,
    /// An attempt not heard of for longer becomes `unresponsive`. `None`: no limit.
    pub unresponsive_seconds: Option<f64>,
    /// Attempts in all, the first included; at least 1.
    pub max_attempts: u32,
    /// Which endings of an attempt call for another one.
    pub retry_condition: Vec<AttemptStatus>,
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self { timeout_seconds: None, unresponsive_seconds: None, max_attempts: 1, retry_condition: Vec::new() }
    }
}

/// One task given to an agent, however many attempts it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rollout {
    /// `ro-` and hexadecimal digits, or what its creator chose.
    pub rollout_id: String,
    /// The task, as the agent understands it.
    pub input: Value,
    /// When it was created.
    pub start_time: f64,
    /// When it ended; `None` while it has not.
    pub end_time: Option<f64>,
    /// What it is for.
    pub mode: Option<RolloutMode>,
    /// The resources that its agent shall use.
    pub resources_id: Option<String>,
    /// Where it stands.
    pub status: RolloutStatus,
    /// Limits and retries.
    pub config: RolloutConfig,
    /// Whatever its creator wants to find again. The keys `run_id` (text) and `step` (whole number) say which training
    /// run it belongs to.
    pub metadata: Option<Object>,
}

impl Rollout {
    /// Key of the metadata with the seed by which a world is made: the same for all members of a group.
    pub const WORLD_SEED: &str = "world_seed";
    /// Key of the metadata with a [`RolloutSampling`].
    pub const SAMPLING: &str = "sampling";

    /// What its agent's calls of a model are sampled with that leave it out, where its creator says.
    pub fn sampling(&self) -> Option<RolloutSampling> {
        RolloutSampling::deserialize(self.noted(Self::SAMPLING)?).ok()
    }

    /// What its creator noted of it under a key of the metadata.
    pub fn noted(&self, key: &str) -> Option<&Value> {
        self.metadata.as_ref()?.get(key)
    }

    /// Names those that tried one task together in a step of a run; `None` of one that belongs to no group.
    pub fn group(&self) -> Option<String> {
        self.noted("group").filter(|group| !group.is_null())?;
        let place = ["run_id", "phase", "step", "group"].map(|key| self.noted(key).cloned().unwrap_or_default());
        Some(Value::from_iter(place).to_string())
    }
}

/// How a rollout's calls of a model are sampled, where they do not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RolloutSampling {
    /// What calls name.
    pub model: String,
    /// Divides the logits.
    pub temperature: f32,
}

/// What it takes to create a rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NewRollout {
    /// Supplied: creating it twice creates it once, and gives back what is stored. `None`: an id is made.
    #[serde(default)]
    pub rollout_id: Option<String>,
    /// The task. Must be present in JSON, but may be null.
    #[serde(deserialize_with = "present")]
    pub input: Value,
    /// What it is for.
    #[serde(default)]
    pub mode: Option<RolloutMode>,
    /// `None`: the resources that were updated last, if there are any.
    #[serde(default)]
    pub resources_id: Option<String>,
    /// `None`: no limits, one attempt.
    #[serde(default)]
    pub config: Option<RolloutConfig>,
    /// See [`Rollout::metadata`]; `None` becomes an empty object.
    #[serde(default)]
    pub metadata: Option<Object>,
}

impl NewRollout {
    /// One that nobody has asked for: for calls that do not say whose they are.
    pub fn session() -> Self {
        let metadata = Object::from_iter([("kind".to_owned(), "session".into())]);
        Self { metadata: Some(metadata), ..Self::default() }
    }
}

/// Changes to a rollout: `None` keeps what is there; the inner `None` of a nullable field sets null.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutUpdate {
    /// A new task.
    pub input: Option<Value>,
    /// A new mode.
    pub mode: Option<Option<RolloutMode>>,
    /// Other resources.
    pub resources_id: Option<Option<String>>,
    /// Set without any check of the transition: finishing ends it, queuing puts it back into the queue.
    pub status: Option<RolloutStatus>,
    /// New limits.
    pub config: Option<RolloutConfig>,
    /// New metadata, replacing the old.
    pub metadata: Option<Option<Object>>,
}
