use crate::ids::{new_attempt_id, new_rollout_id};

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
