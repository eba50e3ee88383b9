//! What whoever starts an evaluation chooses.

use std::path::PathBuf;

use fulgurite_config::overrides::Override;
use fulgurite_trainer::EvaluatedTasks;

/// What is evaluated, by what config.
#[derive(Clone, Debug)]
pub struct EvalOptions {
    /// Config file, or the directory of a run; without one, that of the run which the checkpoint is of.
    pub config: Option<PathBuf>,
    /// Weights: a checkpoint, or a run, whose last checkpoint is taken.
    pub checkpoint: Option<PathBuf>,
    /// Another model in the place of the config's: a directory, a GGUF file, or the name of one of `[[models]]`.
    pub model: Option<String>,
    /// Rollouts of each task, in place of the config's.
    pub samples: Option<usize>,
    /// The tasks that are scored.
    pub tasks: EvaluatedTasks,
    /// What it is held against: an evaluation, a training run, or a checkpoint that has been evaluated.
    pub against: Option<PathBuf>,
    /// Values in place of keys of the config.
    pub overrides: Vec<Override>,
    /// Seed of the samples, in place of the config's.
    pub seed: Option<u64>,
    /// The agent's command, in place of the config's.
    pub agent: Vec<String>,
}
