//! What Agent-lightning's 1.0 API, its gateway, says of a rollout.

use serde::Serialize;
use serde_json::Value;

use crate::text::words::words;
use crate::{Object, Rollout, RolloutMode, RolloutStatus};

words! {
    /// Where a rollout stands, in the gateway's words.
    GatewayState {
        /// Waits for an attempt.
        Queuing = "queuing",
        /// Under way.
        Running = "running",
        /// Ended well.
        Succeeded = "succeeded",
        /// Ended otherwise.
        Failed = "failed",
    }
}

impl GatewayState {
    /// The gateway's word for a status.
    pub fn of(status: RolloutStatus) -> Self {
        match status {
            RolloutStatus::Queuing | RolloutStatus::Requeuing => Self::Queuing,
            RolloutStatus::Preparing | RolloutStatus::Running => Self::Running,
            RolloutStatus::Succeeded => Self::Succeeded,
            RolloutStatus::Failed | RolloutStatus::Cancelled => Self::Failed,
        }
    }

    /// The statuses that have this word.
    pub fn statuses(self) -> impl Iterator<Item = RolloutStatus> {
        RolloutStatus::ALL.iter().copied().filter(move |status| Self::of(*status) == self)
    }

    /// The status that a rollout gets by this word.
    pub fn status(self) -> RolloutStatus {
        match self {
            Self::Queuing => RolloutStatus::Queuing,
            Self::Running => RolloutStatus::Running,
            Self::Succeeded => RolloutStatus::Succeeded,
            Self::Failed => RolloutStatus::Failed,
        }
    }

    /// Whether the gateway lets a rollout go on like this. What has ended stays as it is.
    pub fn may_become(self, next: Self) -> bool {
        self == next
            || matches!(
                (self, next),
                (Self::Queuing, Self::Running | Self::Failed) | (Self::Running, Self::Succeeded | Self::Failed)
            )
    }
}

/// What it takes to create a rollout through the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct NewGatewayRollout {
    /// Supplied: creating it twice creates it once. `None`: an id is made.
    pub rollout_id: Option<String>,
    /// The task.
    pub input: Value,
    /// [`RolloutMode::Train`] or [`RolloutMode::Val`].
    pub mode: RolloutMode,
    /// Seconds that an attempt may take.
    pub timeout_seconds: f64,
    /// How a controller starts its agent as a process.
    pub local: Option<Value>,
    /// How a controller starts its agent as a job of Kubernetes.
    pub k8s: Option<Value>,
    /// Whatever its creator wants to find again.
    pub metadata: Object,
}

/// A rollout as the gateway tells of it.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayRollout {
    /// What both of Agent-lightning's APIs know.
    pub rollout: Rollout,
    /// How a controller starts its agent as a process.
    pub local: Option<Value>,
    /// How a controller starts its agent as a job of Kubernetes.
    pub k8s: Option<Value>,
    /// The job's name.
    pub k8s_job_name: Option<String>,
    /// The attempt that counts: the one that was named last, else the latest.
    pub last_attempt_id: Option<String>,
    /// Why it failed.
    pub error_message: Option<String>,
    /// 1, and 1 more with every change through the gateway.
    pub version: u32,
    /// When it was last changed through the gateway, or else made or ended.
    pub updated_at: f64,
}

/// Changes to a rollout through the gateway: `None` keeps what is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayUpdate {
    /// A state that it may go on to.
    pub state: Option<GatewayState>,
    /// The job's name.
    pub k8s_job_name: Option<String>,
    /// The attempt that counts from now on, which is made if it is not there.
    pub last_attempt_id: Option<String>,
    /// Why it failed.
    pub error_message: Option<String>,
}

/// Rollouts that have finished, in that order.
#[derive(Clone, Debug, PartialEq)]
pub struct Completions {
    /// This part of the list.
    pub rollouts: Vec<Rollout>,
    /// Where the next part begins.
    pub next_after: u64,
    /// How many have finished, deleted ones included.
    pub total: u64,
}

/// Something that happened in an attempt, as the gateway records it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// `model_request`, `reward`, or a word of the agent's.
    pub event_type: String,
    /// Whose.
    pub rollout_id: String,
    /// During which attempt.
    pub attempt_id: String,
    /// When it was recorded.
    pub timestamp: f64,
    /// What.
    pub data: Value,
}
