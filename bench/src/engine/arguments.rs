use std::path::PathBuf;

use clap::Args;

use super::shapes::Shape;

/// `fulgurite-bench engine`.
#[derive(Debug, Args)]
pub struct EngineArguments {
    /// Models by their parameters
    #[arg(long, value_name = "SHAPE,...", value_delimiter = ',', default_value = "0.3m,6m,30m,0.6b")]
    pub shapes: Vec<Shape>,
    /// Streams that are sampled at once; 0 samples nothing
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,16,64")]
    pub batches: Vec<usize>,
    /// Tokens that each stream samples
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub new_tokens: usize,
    /// Tokens of a training step; 0 trains nothing
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub train_tokens: usize,
    /// Members of a group that answer a prompt of 112 tokens with 16 each, and are trained; 0 trains none
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub group_size: usize,
    /// Turns of each side
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub turns: usize,
    /// Least seconds of a turn, which always ends with a whole step
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub seconds: f64,
    /// Threads of each side
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub threads: usize,
    /// A Python interpreter that has the package torch, which is measured in the same run
    #[arg(long, value_name = "FILE")]
    pub python: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite-bench engine-host`.
#[derive(Clone, Copy, Debug, Args)]
pub struct EngineHostArguments {
    /// The model
    #[arg(long, value_name = "SHAPE")]
    pub shape: Shape,
    /// Threads
    #[arg(long, value_name = "N")]
    pub threads: usize,
}
