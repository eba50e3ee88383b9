//! What whoever starts a run may put in place of its config.

use std::path::PathBuf;

use fulgurite_config::declarations::Config;
use fulgurite_config::overrides::Override;

use super::rules::StartFlag;

/// What `fulgurite train` was started with.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Config file.
    pub config: PathBuf,
    /// Seed of the base model and of the run, in place of the config's.
    pub seed: Option<u64>,
    /// The server that keeps the record and samples, in place of one in this process.
    pub server: Option<String>,
    /// Whether a run begins or goes on, and what that may replace.
    pub start: StartFlag,
    /// Values in place of keys of the config.
    pub overrides: Vec<Override>,
    /// Directory of the run, in place of one below the config's.
    pub run_directory: Option<PathBuf>,
    /// Updates at most, in place of the config's.
    pub max_steps: Option<u64>,
    /// Updates that the run may make before it waits for permission to make more.
    pub allowed_steps: Option<u64>,
    /// Where the server's URL is written once it answers.
    pub ready_file: Option<PathBuf>,
    /// Whether standard input brings commands, and ends the run as it closes.
    pub input: StandardInput,
    /// The agent's command, in place of the config's.
    pub agent: Vec<String>,
}

/// What a run does with standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardInput {
    /// Nothing.
    Unread,
    /// Follows its lines as commands, and is interrupted when it closes.
    Commands,
}

impl TrainOptions {
    /// Puts what was given in place of what the config says.
    pub fn override_config(&self, config: &mut Config) {
        if let Some(seed) = self.seed {
            config.run.seed = seed;
        }
        if let Some(max_steps) = self.max_steps {
            config.trainer.common.max_steps = Some(max_steps);
        }
        config.runner.take_agent(&self.agent);
    }

    /// Whether a run goes on.
    pub fn resumes(&self) -> bool {
        matches!(self.start, StartFlag::Resume | StartFlag::ResumeAndReplace)
    }
}
