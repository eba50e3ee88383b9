//! What a config says of learning from rollouts that others run, and of putting the weights behind their model.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// How rollouts are harvested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HarvestOptions {
    /// Rollouts with something to train that make a step.
    pub rollouts_per_step: usize,
    /// Updates that the weights which sampled a token may be behind those that are trained; what is older is not trained.
    pub max_staleness: u64,
    /// What a rollout whose task nobody else in its step was given is measured against is a running mean of such rewards,
    /// of which each keeps this share for the next.
    pub baseline_decay: f64,
    /// Learn once more from what another run of the store has learnt from.
    pub again: bool,
    /// A file of conversations, JSON lines or Parquet, that are never learnt from: what their answers cost is the run's
    /// held-out score.
    pub validation: Option<PathBuf>,
}

impl Default for HarvestOptions {
    fn default() -> Self {
        Self { rollouts_per_step: 64, max_staleness: 4, baseline_decay: 0.95, again: false, validation: None }
    }
}

/// Which new weights are put behind the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishRule {
    /// Those whose held-out score is not worse than that of the weights which are there: the 95% interval of the paired
    /// difference is not wholly on the worse side.
    NotWorse,
    /// Those of an update that has moved the tokens that it learnt from by no more than `publish_max_kl`.
    WithinBounds,
    /// All of them.
    Always,
}
