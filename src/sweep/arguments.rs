//! What `fulgurite sweep` is told on the command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Args;

use fulgurite_config::overrides::Override;
use fulgurite_lab::sweep::arms::SweptKey;
use fulgurite_lab::sweep::plan::SweepRequest;

/// What a script may want to know.
pub const SWEEP_EXIT_CODES: &str = "\
Exit codes:
  0  every run is over, or was stopped early
  1  a run failed, or the sweep was interrupted; --resume goes on with what is left
  2  the command line is wrong";

/// `fulgurite sweep`.
#[derive(Debug, Args)]
pub struct SweepArguments {
    /// Config file, as `train` takes it
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// A key of the config and its values: trainer.learning_rate=1e-4,3e-4; of several keys every combination is an arm
    #[arg(value_name = "KEY=A,B,C", conflicts_with = "list", required_unless_present_any = ["list", "resume"])]
    pub keys: Vec<SweptKey>,
    /// Arms one by one, JSON lines: {"trainer.learning_rate": 1e-3, "trainer.group_size": 4, "name": "small"}
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Seeds that every arm is run with; the config's unless told otherwise
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub seeds: Vec<u64>,
    /// Put a value in place of a key of the config in every arm (repeatable), as `train` does
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Refused: every run has a server of its own
    #[arg(long, value_name = "URL", hide = true)]
    pub server: Option<String>,
    /// Runs at a time: one for every two processors unless told otherwise, and never more than the models that they train
    /// have memory for
    #[arg(long, value_name = "N")]
    pub parallel: Option<NonZeroUsize>,
    /// Stop the worse half of the arms after a quarter of the updates, and of the rest after half of them, by the held-out
    /// score, or by the training reward where none is there yet
    #[arg(long)]
    pub stop_early: bool,
    /// Directory of the sweep, which has its runs in it; by default NAME-sweep in the config's [run] directory
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Go on with the sweep in that directory: what is over is not run again, what was cut short goes on
    #[arg(long)]
    pub resume: bool,
    /// Print JSON, one object a line: one for each run that ends, and one for each arm at the end, best first
    #[arg(long)]
    pub json: bool,
    /// The agent's command, in place of the config's [runner] command
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

impl SweepArguments {
    /// The sweep that they request.
    pub fn request(&self) -> SweepRequest {
        SweepRequest {
            config: self.config.clone(),
            keys: self.keys.clone(),
            list: self.list.clone(),
            seeds: self.seeds.clone(),
            overrides: self.overrides.clone(),
            stop_early: self.stop_early,
            agent: self.agent.clone(),
        }
    }
}
