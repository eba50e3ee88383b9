//! What `fulgurite dashboard` is told on the command line.

use std::path::PathBuf;

use clap::Args;

/// `fulgurite dashboard`.
#[derive(Debug, Args)]
pub struct DashboardArguments {
    /// Directory of a run, its name below runs/, or a store: sqlite://FILE or postgres://...
    #[arg(value_name = "RUN|STORE")]
    pub shown: String,
    /// Directory of a model whose tokens are to be shown with their texts (repeatable); those of a run are known
    #[arg(long, value_name = "DIR")]
    pub model: Vec<PathBuf>,
    /// Address to listen on, a loopback one; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4750")]
    pub listen: String,
    /// Write {"url": ..., "pid": ...} here once it answers
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}
