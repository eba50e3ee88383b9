//! What `fulgurite watch` is told on the command line.

use std::path::PathBuf;

use clap::Args;

/// `fulgurite watch`.
#[derive(Debug, Args)]
pub struct WatchArguments {
    /// Directory of a run, or its name below runs/
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
}
