//! `[trackers]`: programs of others that draw a run's metrics while it goes on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[trackers]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrackersConfig {
    /// Whether every step's metrics are written as TensorBoard reads them, into `tensorboard/` in the run's directory.
    pub tensorboard: bool,
    /// Whether they are written as an offline run of Weights & Biases, into `wandb/` in the run's directory; `wandb sync`
    /// sends it.
    pub wandb: bool,
    /// Project of Weights & Biases; `[run]` `name` unless told otherwise.
    pub wandb_project: Option<String>,
    /// Write below this directory in place of the run's: into `tensorboard/RUN`, and `wandb/`.
    pub directory: Option<PathBuf>,
}
