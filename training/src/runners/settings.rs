//! What a runner does, and where: on its command line, as JSON.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::runner::RunnerConfig;
use fulgurite_lab::records::run_files::{JUDGEMENTS, WORLDS};
use serde::{Deserialize, Serialize};

/// What a runner does, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunnerSettings {
    /// What it runs.
    pub config: RunnerConfig,
    /// Where its commands run; where the runner does if there is none.
    pub directory: Option<PathBuf>,
    /// Where worlds are made, if there are any.
    pub worlds: PathBuf,
    /// Where what judges say is kept, for runs that are gone on with.
    #[serde(default)]
    pub judgements: Option<PathBuf>,
}

impl RunnerSettings {
    /// Of the runner of a run, whose worlds and judgements are in the run's directory.
    pub(crate) fn of_run(loaded: &LoadedConfig, run_directory: &Path) -> Self {
        let config = loaded.config.runner.clone();
        Self {
            directory: Some(loaded.resolve(config.directory.as_deref().unwrap_or(Path::new("")))),
            worlds: run_directory.join(WORLDS),
            judgements: Some(run_directory.join(JUDGEMENTS)),
            config,
        }
    }

    /// How long taking all worlds away may take.
    pub(crate) fn patience_with_worlds(&self) -> Duration {
        let seconds = if self.config.has_worlds() { self.config.hook_timeout_seconds } else { 0.0 };
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }
}
