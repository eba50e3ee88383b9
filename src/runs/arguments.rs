//! What `fulgurite runs` is told on the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fulgurite runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArguments {
    /// What of them; without it they are listed
    #[command(subcommand)]
    pub action: Option<RunsAction>,
    #[command(flatten)]
    pub list: ListRunsArguments,
}

/// What of runs.
#[derive(Debug, Subcommand)]
pub enum RunsAction {
    /// Show one run: how it went, what it took, where every token went
    Show(ShowRunArguments),
    /// Compare two runs, number by number
    Compare(CompareRunsArguments),
}

/// `fulgurite runs`.
#[derive(Debug, Args)]
pub struct ListRunsArguments {
    /// Directory of runs, each in a directory of its own
    #[arg(value_name = "DIR", default_value = "runs", conflicts_with = "store")]
    pub directory: PathBuf,
    /// List the runs of this store, in place of a directory's
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    #[command(flatten)]
    pub print: PrintRunsArguments,
}

/// How runs are told of.
#[derive(Debug, Args)]
pub struct PrintRunsArguments {
    /// Config file with the [prices] that runs are counted by, in place of those of their own configs
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Print JSON, one object a run
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite runs show`.
#[derive(Debug, Args)]
pub struct ShowRunArguments {
    /// Directory of a run, or its name below runs/
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    #[command(flatten)]
    pub print: PrintRunsArguments,
}

/// `fulgurite runs compare`.
#[derive(Debug, Args)]
pub struct CompareRunsArguments {
    /// Directory of a run, or its name below runs/
    #[arg(value_name = "A")]
    pub first: PathBuf,
    /// Directory of another
    #[arg(value_name = "B")]
    pub second: PathBuf,
    #[command(flatten)]
    pub print: PrintRunsArguments,
}
