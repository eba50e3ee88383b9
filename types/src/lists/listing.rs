use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{AttemptStatus, RecordedReward, RolloutMode, RolloutStatus};

/// Which records of a list over all rollouts. `None` is no condition; all conditions must hold. A condition on
/// something that a kind of record does not have is passed over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListFilter {
    /// Of one of these rollouts.
    pub rollout_id_in: Option<Vec<String>>,
    /// Of rollouts with one of these statuses.
    pub rollout_status_in: Option<Vec<RolloutStatus>>,
    /// Of rollouts with this mode.
    pub mode: Option<RolloutMode>,
    /// Of rollouts of this training run.
    pub run_id: Option<String>,
    /// Of rollouts of no training run.
    pub of_no_run: bool,
    /// Of rollouts with the same task as this one, which is not among them.
    pub same_task_as: Option<String>,
    /// Of rollouts that were made before this one.
    pub before_rollout: Option<String>,
    /// Of rollouts that were made for this step of their run.
    pub step: Option<i64>,
    /// Of rollouts that were made at this time or later.
    pub rollout_since: Option<f64>,
    /// Of this attempt: attempts, spans, generations, rewards.
    pub attempt_id: Option<String>,
    /// With one of these statuses: attempts.
    pub attempt_status_in: Option<Vec<AttemptStatus>>,
    /// Run by this worker: attempts.
    pub worker_id: Option<String>,
    /// With this name: spans, generations.
    pub name: Option<String>,
    /// Of this model: generations.
    pub model: Option<String>,
    /// Begun at this time or later.
    pub since: Option<f64>,
}

/// Which part of a list, and in which order.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// The last ones of the whole list.
    Newest {
        /// At most this many; `None` is all.
        limit: Option<u64>,
        /// A field of the record, greatest last; `None` is the order in which the records were made.
        sort_by: Option<String>,
    },
    /// The first ones of those that no earlier part had, in the order in which they were made.
    After {
        /// Where the earlier parts ended.
        cursor: Cursor,
        /// At most this many; `None` is all.
        limit: Option<u64>,
    },
}

/// How far a list has been read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The greatest position that has been read.
    pub position: i64,
    /// Keys of what has been read near that position, each with its own.
    pub read: BTreeSet<(i64, String)>,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed<T> {
    /// The records, newest last.
    pub items: Vec<T>,
    /// Where the next part begins.
    pub cursor: Cursor,
}

/// A reward, with where it was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundReward {
    /// The rollout that it is for.
    pub rollout_id: String,
    /// Name of the span that holds it.
    pub span_name: String,
    /// The reward.
    #[serde(flatten)]
    pub recorded: RecordedReward,
}
