//! What `fulgurite bench` takes.

use std::path::PathBuf;

use clap::Args;

use super::{Shape, Traffic};
use crate::config::Synchronous;

/// `fulgurite bench proxy`.
#[derive(Debug, Args)]
pub struct BenchProxyArguments {
    /// Calls of the first of the kinds at each pace; of the others, half as many
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub calls: usize,
    /// Calls a second, where they are made at a rate
    #[arg(long, value_name = "N", default_value_t = 1000.0)]
    pub rate: f64,
    /// Calls under way, where they are made as soon as others are answered
    #[arg(long, value_name = "N", default_value_t = 32)]
    pub concurrency: usize,
    /// Kinds of calls
    ///
    /// Attempts of one call each, answered whole or streamed; attempts of several turns; calls that do not say whose they
    /// are.
    #[arg(
        long,
        value_name = "KIND,...",
        value_delimiter = ',',
        default_value = "whole,streamed,conversations,sessions",
        hide_possible_values = true
    )]
    pub kinds: Vec<Traffic>,
    /// What an answered call survives: a power cut (full), or the end of the process alone (normal)
    #[arg(long, value_name = "MODE", default_value = "full", hide_possible_values = true)]
    pub synchronous: Synchronous,
    /// Where the stores are made, each in a directory that is removed in the end: on the disk that is to be measured
    /// [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Let client and host run on all processors, as the proxy does
    #[arg(long)]
    pub share_processors: bool,
    /// Another build of this program, to be measured beside this one
    #[arg(long, value_name = "FILE")]
    pub against: Option<PathBuf>,
    /// A running gateway of Agent-lightning 1.0, to be measured beside this one
    ///
    /// Its model must be called `bench` (`default_proxy.model_name`). It forgets the servers that are registered there for
    /// the host of this run. Of the calls it gets attempts of one call, answered whole, as many at once as the proxy.
    #[arg(long, value_name = "URL", requires = "gateway_pid")]
    pub gateway: Option<String>,
    /// That gateway's process
    #[arg(long, value_name = "PID", requires = "gateway")]
    pub gateway_pid: Option<u32>,
    /// Print JSON, one object a line; the last sums up
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite bench proxy-host`.
#[derive(Debug, Args)]
pub struct BenchProxyHostArguments {
    /// Directory of the tokenizer
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Where it writes its URL
    #[arg(long, value_name = "FILE")]
    pub ready_file: PathBuf,
}

/// `fulgurite bench engine`.
#[derive(Debug, Args)]
pub struct BenchEngineArguments {
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

/// `fulgurite bench engine-host`.
#[derive(Clone, Copy, Debug, Args)]
pub struct BenchEngineHostArguments {
    /// The model
    #[arg(long, value_name = "SHAPE")]
    pub shape: Shape,
    /// Threads
    #[arg(long, value_name = "N")]
    pub threads: usize,
}

/// `fulgurite bench render`.
#[derive(Debug, Args)]
pub struct BenchRenderArguments {
    /// Model directory, in place of a tokenizer and a template that are made for it
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// How conversations are written: auto, template, chatml, or the name of a format such as qwen3_5
    #[arg(long, value_name = "NAME", default_value = "template")]
    pub renderer: String,
    /// Tokens of the conversations
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1000,8000,64000")]
    pub sizes: Vec<usize>,
    /// A Python interpreter that has the package transformers: its apply_chat_template is measured in the same run
    #[arg(long, value_name = "FILE")]
    pub python: Option<PathBuf>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite bench store`.
#[derive(Debug, Args)]
pub struct BenchStoreArguments {
    /// Requests of each cheap operation and server; dear ones get a quarter
    #[arg(long, value_name = "N", default_value_t = 6000)]
    pub requests: usize,
    /// Spans that the filled store holds beforehand; 0 leaves it out
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub spans: usize,
    /// Another server to ask the same of, beside ours
    #[arg(long, value_name = "URL", requires = "against_pid")]
    pub against: Option<String>,
    /// That server's process
    #[arg(long, value_name = "PID", requires = "against")]
    pub against_pid: Option<u32>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}
