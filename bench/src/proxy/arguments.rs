use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::traffic::Traffic;

/// `fulgurite-bench proxy`.
#[derive(Debug, Args)]
pub struct ProxyArguments {
    /// The program that is measured [default: `fulgurite` in the directory of this one]
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
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

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Synchronous {
    /// A power cut.
    #[default]
    Full,
    /// The death of the process.
    Normal,
}

/// `fulgurite-bench proxy-host`.
#[derive(Debug, Args)]
pub struct ProxyHostArguments {
    /// Directory of the tokenizer
    #[arg(long, value_name = "DIR")]
    pub model: PathBuf,
    /// Where it writes its URL
    #[arg(long, value_name = "FILE")]
    pub ready_file: PathBuf,
}
