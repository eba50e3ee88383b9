//! What `fulgurite regrade` is told on the command line.

use std::path::PathBuf;

use clap::Args;
use fulgurite_types::RolloutExpression;

/// `fulgurite regrade`.
#[derive(Debug, Args)]
pub struct RegradeArguments {
    /// Directory of the run whose rollouts are graded, or its name below runs/
    #[arg(value_name = "RUN", required_unless_present = "store", conflicts_with = "store")]
    pub run: Option<PathBuf>,
    /// In place of a run, the rollouts of this store: sqlite://FILE or postgres://...
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Only rollouts that this means, such as 'mode = train and step >= 20'; docs/how-to/sft.md has the language
    #[arg(long = "where", value_name = "FILTER")]
    pub expression: Option<RolloutExpression>,
    /// The new grader: it finds an agent's output on its standard input and prints {"reward": 1.0}. Without it the
    /// run's [runner] grade, as its files are now
    #[arg(long, value_name = "COMMAND", required_unless_present = "run")]
    pub grade: Option<String>,
    /// Have the grader run in this directory, in a sandbox: it reads that and this machine's programs, and reaches no network
    #[arg(long, value_name = "DIR", requires = "grade")]
    pub in_sandbox: Option<PathBuf>,
    /// Give the new rewards, in place of those that are recorded; else they are only shown
    #[arg(long)]
    pub apply: bool,
    /// Graders that run at a time
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub parallel: usize,
    /// Seconds that the grader may take for one rollout
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub timeout: f64,
    /// Print JSON: one object a rollout, and one at the end
    #[arg(long)]
    pub json: bool,
}
