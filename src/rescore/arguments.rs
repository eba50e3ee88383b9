//! What `fulgurite rescore` is told on the command line.

use std::path::PathBuf;

use clap::Args;
use fulgurite_types::RolloutExpression;

/// `fulgurite rescore`.
#[derive(Debug, Args)]
pub struct RescoreArguments {
    /// Directory of the run whose sampled tokens are scored, or its name below runs/
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Weights: a checkpoint, or the directory of a run, whose last checkpoint is meant; else this run's last
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<PathBuf>,
    /// Only of rollouts that this means, such as 'mode = train and step >= 20'; docs/how-to/sft.md has the language
    #[arg(long = "where", value_name = "FILTER")]
    pub expression: Option<RolloutExpression>,
    /// Show every sampled token with both of its logprobs
    #[arg(long)]
    pub tokens: bool,
    /// Print JSON: one object a generation, with its tokens' logprobs, and one at the end
    #[arg(long)]
    pub json: bool,
}
