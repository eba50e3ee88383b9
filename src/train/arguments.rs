//! What `fulgurite train` takes.

use std::path::PathBuf;

use clap::Args;

use fulgurite_config::overrides::Override;
use fulgurite_training::start::options::{StandardInput, TrainOptions};
use fulgurite_training::start::rules::StartFlag;

/// `fulgurite train`.
#[derive(Clone, Debug, Args)]
pub struct TrainArguments {
    /// Config file: TOML, of which docs/reference/config.md has every key
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Seed of the base model and of the run, in place of the config's
    #[arg(id = "run.seed", long = "seed", value_name = "N", env = "FULGURITE_SEED")]
    pub seed: Option<u64>,
    /// Train as a daemon beside the server at this URL, which keeps the record and samples for its agents, in place of a
    /// server of its own; its admin key, if it has one, is taken from where the config's [server] says, or from
    /// FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", conflicts_with = "ready_file")]
    pub server: Option<String>,
    /// Go on with the latest run of this config and seed from its last checkpoint
    #[arg(long)]
    pub resume: bool,
    /// Begin a new run although somebody's weights are behind the model of --server, and put the config's in their place
    #[arg(long, requires = "server", conflicts_with = "resume")]
    pub start_over: bool,
    /// Go on although other weights are behind the model of --server than the run's newest, and put its checkpoint's in
    /// their place
    #[arg(long, requires_all = ["server", "resume"])]
    pub replace_weights: bool,
    /// Put a value in place of a key of the config (repeatable): trainer.learning_rate=3e-4, models.0.lora_rank=8 (lora_alpha
    /// is 32 unless it is set too); the value is TOML, or text without quotes
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Directory of the run, in place of a new one below the config's [run] directory
    #[arg(long, value_name = "DIR")]
    pub run_directory: Option<PathBuf>,
    /// Updates at most, in place of the config's
    #[arg(id = "trainer.max_steps", long = "max-steps", value_name = "N", env = "FULGURITE_MAX_STEPS")]
    pub max_steps: Option<u64>,
    /// Updates that the run may make before it waits for leave to make more, which the record of its server, or
    /// --allowed-steps of a resumption, gives; what it has learnt until then is in a checkpoint
    #[arg(long, value_name = "N")]
    pub allowed_steps: Option<u64>,
    /// Make one update on one group, of which nothing is kept, and say what the whole run would take
    #[arg(long, conflicts_with_all = ["server", "resume", "run_directory", "ready_file"])]
    pub dry_run: bool,
    /// Write {"url": ..., "pid": ...} here once the server answers
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Take {"allowed_steps": N} on lines of standard input, and be interrupted when that is closed: whoever started it may
    /// have died
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
    /// Print JSON, one object a line: one for each step and each warning, and a summary at the end
    #[arg(long)]
    pub json: bool,
    /// The agent's command, in place of the config's [runner] command
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

impl TrainArguments {
    /// What of them a run needs.
    pub fn options(self) -> TrainOptions {
        let start = self.start_flag();
        let input = if self.until_stdin_closes { StandardInput::Commands } else { StandardInput::Unread };
        TrainOptions {
            config: self.config,
            seed: self.seed,
            server: self.server,
            start,
            overrides: self.overrides,
            run_directory: self.run_directory,
            max_steps: self.max_steps,
            allowed_steps: self.allowed_steps,
            ready_file: self.ready_file,
            input,
            agent: self.agent,
        }
    }

    fn start_flag(&self) -> StartFlag {
        match self {
            Self { start_over: true, .. } => StartFlag::StartOver,
            Self { replace_weights: true, .. } => StartFlag::ResumeAndReplace,
            Self { resume: true, .. } => StartFlag::Resume,
            _ => StartFlag::New,
        }
    }
}
