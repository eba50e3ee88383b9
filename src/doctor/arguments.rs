//! What `fulgurite doctor` is told on the command line.

use std::path::PathBuf;

use clap::Args;

/// `fulgurite doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// Directory of a run, or its name below runs/; without one, this machine is looked at
    #[arg(value_name = "RUN")]
    pub run: Option<PathBuf>,
    /// Print JSON, one object a finding
    #[arg(long)]
    pub json: bool,
}
