//! What a config says of scoring what is held out, and of stopping by the scores.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `spike_window` unless told otherwise.
pub(crate) const SPIKE_WINDOW: usize = 32;
/// `stop_after_spikes` unless told otherwise.
pub(crate) const STOP_AFTER_SPIKES: u64 = 5;

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

/// Stop once the evaluations of the held-out tasks reach every threshold, or improve no more; without thresholds and patience,
/// never.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StopRule {
    /// Least mean reward.
    pub held_out_reward: Option<f64>,
    /// Least mean of the reward's named components.
    pub held_out: BTreeMap<String, f64>,
    /// Evaluations one after another that must reach them: one alone may be lucky.
    pub in_a_row: usize,
    /// Of every objective: evaluations one after another, at most, whose score is not better than the best before them.
    pub patience: Option<u64>,
    /// What a score must be better by to count for `patience`.
    pub least_improvement: f64,
}

/// Which weights are a run's at its end: those that are served, exported and chatted with unless others are named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinalWeights {
    /// Those after the last update.
    #[default]
    Last,
    /// Those with the best held-out score.
    Best,
}

impl Default for StopRule {
    fn default() -> Self {
        Self { held_out_reward: None, held_out: BTreeMap::new(), in_a_row: 1, patience: None, least_improvement: 0.0 }
    }
}
