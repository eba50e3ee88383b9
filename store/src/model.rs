//! What the store holds, as plain data.
//!
//! The types of this file serialise exactly as Agent-lightning's JSON: every field is written, nulls included.
//! Times are seconds since the Unix epoch.

mod archive;
mod drift;
mod gateway;
mod generation;
mod listing;
mod packed_generation;
mod query;
mod reward;
mod run;
mod span;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::rollouts::{new_attempt_id, new_rollout_id};

pub use archive::{
    ArchiveRecord, ArchiveScope, ArchivedCheckpoint, ArchivedGatewayRollout, ArchivedGeneration, ArchivedRollout,
    ArchivedUse, Imported,
};
pub use drift::{CallDrift, DriftReport};
pub use gateway::{Completions, Event, GatewayRollout, GatewayState, GatewayUpdate, NewGatewayRollout};
pub use generation::{Generation, NewGeneration, WeightsFrom};
pub use listing::{Cursor, FoundReward, ListFilter, Listed, Part};
pub use packed_generation::{PackedGeneration, PackingError};
pub use query::{FilterLogic, GenerationFilter, Page, RolloutFilter, SortOrder, SpanFilter, TextFilter, WorkerFilter};
pub use reward::{NewReward, RecordedReward, Repeat, Reward, RewardGiver, Rewarded, RewardedAttempts};
pub use run::{
    Checkpoint, CheckpointRecord, GenerationUse, LedgerRow, ModelWeights, NewRun, Run, Step, StepRecord,
    UnaccountedGeneration,
};
pub use span::{IncomingSpan, Ingested, Span, SpanContext, SpanEvent, SpanLink, SpanResource, SpanStatus, StatusCode};

/// A JSON object.
pub type Object = Map<String, Value>;

/// Declares an enum that is one word in JSON and in SQL.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Every word, in the same order.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word, in JSON and in SQL.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The value whose word this is.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        // Only from a text: the derived form would take `{"WORD": null}` as well.
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::from_word(&word).ok_or_else(|| serde::de::Error::unknown_variant(&word, Self::WORDS))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

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
    /// Where one attempt at a rollout stands.
    AttemptStatus {
        /// Handed to a worker; nothing heard yet.
        Preparing = "preparing",
        /// Heard of.
        Running = "running",
        /// Ended without success.
        Failed = "failed",
        /// Ended well.
        Succeeded = "succeeded",
        /// Not heard of for too long, or its worker went away.
        Unresponsive = "unresponsive",
        /// Took too long.
        Timeout = "timeout",
    }
}

impl AttemptStatus {
    /// Whether nothing more is expected of it.
    pub fn is_ended(self) -> bool {
        !matches!(self, Self::Preparing | Self::Running)
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

words! {
    /// What a worker does.
    WorkerStatus {
        /// Waits for work.
        Idle = "idle",
        /// Runs an attempt.
        Busy = "busy",
        /// Not known.
        Unknown = "unknown",
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

/// One try at a rollout, by one worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The rollout that it tries.
    pub rollout_id: String,
    /// `at-` and 8 hexadecimal digits; unique within its rollout.
    pub attempt_id: String,
    /// 1 for the first attempt, then counting up.
    pub sequence_id: u32,
    /// When it was handed out.
    pub start_time: f64,
    /// When it ended; `None` while it has not.
    pub end_time: Option<f64>,
    /// Where it stands.
    pub status: AttemptStatus,
    /// Who runs it.
    pub worker_id: Option<String>,
    /// When a span or a report of it last arrived.
    pub last_heartbeat_time: Option<f64>,
    /// Whatever its worker wants to find again.
    pub metadata: Option<Object>,
    /// What gives its rewards, as its worker called it when it took the rollout; nothing is written where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grader: Option<String>,
}

/// A rollout and its latest attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptedRollout {
    /// The rollout; its fields stand beside `attempt` in JSON.
    #[serde(flatten)]
    pub rollout: Rollout,
    /// Its latest attempt.
    pub attempt: Attempt,
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

/// Rollout and attempt of a session: calls that do not say whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionIds {
    /// The rollout.
    pub rollout_id: String,
    /// Its only attempt.
    pub attempt_id: String,
}

impl SessionIds {
    /// Ids of a session that is not recorded yet.
    pub fn new() -> Self {
        Self { rollout_id: new_rollout_id(), attempt_id: new_attempt_id() }
    }
}

impl Default for SessionIds {
    fn default() -> Self {
        Self::new()
    }
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

/// Changes to an attempt: `None` keeps what is there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AttemptUpdate {
    /// A new status, which the rollout follows if this is its latest attempt.
    pub status: Option<AttemptStatus>,
    /// Who runs it.
    pub worker_id: Option<String>,
    /// When it was last heard of.
    pub last_heartbeat_time: Option<f64>,
    /// New metadata, replacing the old.
    pub metadata: Option<Object>,
}

impl AttemptUpdate {
    /// Only a new status.
    pub fn status(status: AttemptStatus) -> Self {
        Self { status: Some(status), ..Self::default() }
    }
}

/// Which attempt of a rollout is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptRef {
    /// The one with the greatest sequence id.
    Latest,
    /// The one with this id.
    Id(String),
}

impl From<&str> for AttemptRef {
    /// The word `latest` means the latest attempt, as on the wire.
    fn from(text: &str) -> Self {
        if text == "latest" { Self::Latest } else { Self::Id(text.to_owned()) }
    }
}

impl From<&String> for AttemptRef {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<String> for AttemptRef {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

/// Somebody who takes rollouts off the queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worker {
    /// What it calls itself.
    pub worker_id: String,
    /// What it does.
    pub status: WorkerStatus,
    /// What it last said of its machine.
    pub heartbeat_stats: Option<Object>,
    /// When it last said so.
    pub last_heartbeat_time: Option<f64>,
    /// When it last asked for work.
    pub last_dequeue_time: Option<f64>,
    /// When it last became busy.
    pub last_busy_time: Option<f64>,
    /// When it last became idle.
    pub last_idle_time: Option<f64>,
    /// The rollout that it runs.
    pub current_rollout_id: Option<String>,
    /// The attempt that it runs.
    pub current_attempt_id: Option<String>,
}

/// Named things that agents use (model endpoints, prompt templates), at one version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourcesUpdate {
    /// `rs-` and 12 hexadecimal digits, or what its creator chose.
    pub resources_id: String,
    /// When it was created.
    pub create_time: f64,
    /// When it was last replaced.
    pub update_time: f64,
    /// 1, then counting up with every update.
    pub version: u32,
    /// By name, each an object with a `resource_type`.
    pub resources: Object,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paginated<T> {
    /// This page.
    pub items: Vec<T>,
    /// How many were asked for; -1 is all.
    pub limit: i64,
    /// How many were passed over.
    pub offset: u64,
    /// How many there are before paging.
    pub total: u64,
}

/// Reads a field that must be present, though it may be null (serde takes a missing `Option` or `Value` for null).
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::deserialize(deserializer)
}
