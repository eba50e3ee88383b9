//! `[trackers]`: programs of others that draw a run's metrics while it goes on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `[trackers]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrackersConfig {
    /// Whether every step's metrics are written as TensorBoard reads them, into `tensorboard/` in the run's directory.
    pub tensorboard: bool,
    /// Whether the package `wandb` of `python` is told of every step. It writes an offline run into `wandb/` in the run's
    /// directory, which `wandb sync` sends; with `WANDB_MODE=online` it sends steps as they come.
    pub wandb: bool,
    /// Project of Weights & Biases; `[run]` `name` unless told otherwise.
    pub wandb_project: Option<String>,
    /// Write below this directory in place of the run's: into `tensorboard/RUN`, and `wandb/`.
    pub directory: Option<PathBuf>,
    /// Python interpreter whose packages have `wandb`.
    pub python: PathBuf,
}

impl Default for TrackersConfig {
    fn default() -> Self {
        Self { tensorboard: false, wandb: false, wandb_project: None, directory: None, python: "python3".into() }
    }
}
