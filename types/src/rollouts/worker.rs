use serde::{Deserialize, Serialize};

use crate::Object;
use crate::text::words::words;

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
