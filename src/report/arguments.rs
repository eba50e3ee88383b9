//! What `fulgurite report` takes.

use std::path::PathBuf;

use clap::Args;

/// `fulgurite report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Directories of runs, or of sweeps, whose runs are meant; for --svg also files of runs' metrics
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Draw this metric alone over the updates, a line for each run, as an SVG picture; the held-out reward is
    /// test/env/all/reward/total
    #[arg(long, value_name = "METRIC")]
    pub svg: Option<String>,
    /// Write it here, in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
