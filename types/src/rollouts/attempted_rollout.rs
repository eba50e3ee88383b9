use serde::{Deserialize, Serialize};

use crate::{Attempt, Rollout};

/// A rollout and its latest attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptedRollout {
    /// The rollout; its fields stand beside `attempt` in JSON.
    #[serde(flatten)]
    pub rollout: Rollout,
    /// Its latest attempt.
    pub attempt: Attempt,
}
