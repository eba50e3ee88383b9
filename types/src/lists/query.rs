use serde::{Deserialize, Serialize};

use crate::text::words::words;
use crate::{AttemptRef, RolloutMode, RolloutStatus, WorkerStatus};

words! {
    /// How the conditions of a filter combine.
    FilterLogic {
        /// All must hold.
        And = "and",
        /// One must hold.
        Or = "or",
    }
}

words! {
    /// Which end of a sorted list comes first.
    SortOrder {
        /// Smallest first.
        Ascending = "asc",
        /// Greatest first.
        Descending = "desc",
    }
}

/// Which part of a list, in which order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// At most this many; `None` is all.
    pub limit: Option<u64>,
    /// Pass over this many.
    pub offset: u64,
    /// A field of the record; `None` is the order in which the records were made.
    pub sort_by: Option<String>,
    /// Which end comes first; `None` is ascending.
    pub sort_order: Option<SortOrder>,
}

/// A condition on a text field: equality, a substring (case counts), or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextFilter {
    /// Must be this.
    pub equals: Option<String>,
    /// Must contain this.
    pub contains: Option<String>,
}

/// Which rollouts. `None` is no condition; an empty list matches nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RolloutFilter {
    /// Status is one of these.
    pub status_in: Option<Vec<RolloutStatus>>,
    /// Id is one of these.
    pub rollout_id_in: Option<Vec<String>>,
    /// Id contains this.
    pub rollout_id_contains: Option<String>,
    /// How the three conditions above combine; `None` is and.
    pub filter_logic: Option<FilterLogic>,
    /// Belongs to this training run (always required, whatever `filter_logic` says).
    pub run_id: Option<String>,
    /// Was made for this step of its run (always required).
    pub step: Option<i64>,
    /// Has this mode (always required).
    pub mode: Option<RolloutMode>,
    /// Is no session: was made for a task, and not for calls that did not say whose they are (always required).
    pub without_sessions: bool,
    /// Part and order.
    pub page: Page,
}

/// Which workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerFilter {
    /// Status is one of these.
    pub status_in: Option<Vec<WorkerStatus>>,
    /// Id contains this.
    pub worker_id_contains: Option<String>,
    /// How the conditions combine; `None` is and.
    pub filter_logic: Option<FilterLogic>,
    /// Part and order.
    pub page: Page,
}

/// Which spans of a rollout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanFilter {
    /// Of this rollout.
    pub rollout_id: String,
    /// Of this attempt; `None` is all.
    pub attempt: Option<AttemptRef>,
    /// Condition on the trace id.
    pub trace_id: TextFilter,
    /// Condition on the span id.
    pub span_id: TextFilter,
    /// Condition on the parent's span id.
    pub parent_id: TextFilter,
    /// Condition on the name.
    pub name: TextFilter,
    /// How the conditions on ids and name combine; `None` is and. With `Or` and no condition nothing matches.
    pub filter_logic: Option<FilterLogic>,
    /// Part and order; sorted by `sequence_id` unless told otherwise.
    pub page: Page,
}

/// Which generations; conditions are combined by and, order is that of recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GenerationFilter {
    /// This one.
    pub generation_id: Option<String>,
    /// Of this rollout.
    pub rollout_id: Option<String>,
    /// Of this attempt (attempt ids are unique within a rollout).
    pub attempt_id: Option<String>,
    /// Of rollouts of this training run.
    pub run_id: Option<String>,
    /// Answering the request with this digest.
    pub request_digest: Option<String>,
    /// At most this many; `None` is all.
    pub limit: Option<u64>,
    /// Pass over this many.
    pub offset: u64,
}
