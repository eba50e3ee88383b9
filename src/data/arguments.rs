//! What `fulgurite data` takes.

use std::path::PathBuf;

use clap::Args;
use fulgurite_config::overrides::Override;

/// `fulgurite data`.
#[derive(Debug, Args)]
pub struct DataArguments {
    /// Config file of a run that learns from conversations or comparisons
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Put a value in place of a key of the config (repeatable), as `train` does
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
