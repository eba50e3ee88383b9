use serde::{Deserialize, Serialize};

/// When and how the held-out tasks are scored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationOptions {
    /// Score before every this many updates, and after the last.
    pub every: u64,
    /// Rollouts of each held-out (and final) task.
    pub samples_per_task: usize,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self { every: 1, samples_per_task: 4 }
    }
}
