use serde::{Deserialize, Serialize};

/// Further tasks in place of those whose rollouts all earned the same (DAPO: Yu et al. 2025).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DynamicSampling {
    /// How often in a step, at most, as many further tasks are tried as groups are lacking. Then the step is made with the
    /// groups that there are.
    pub max_refills: usize,
    /// Least and greatest share of a group's rollouts that solve the task; what is easier or harder is not trained, and
    /// other tasks are tried in its place. Without it, only groups in which all earned the same are left out.
    pub solve_rate: Option<[f64; 2]>,
    /// The reward from which on a rollout counts as having solved its task.
    pub solved_at: f64,
    /// Whether tasks are tried the more often the nearer the share of rollouts that lately solved them is to one half, in
    /// place of one after the other. No task is given up.
    pub prioritize: bool,
}

impl Default for DynamicSampling {
    fn default() -> Self {
        Self { max_refills: 4, solve_rate: None, solved_at: 1.0, prioritize: false }
    }
}
