//! What `fulgurite learners` is told on the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `fulgurite learners`.
#[derive(Debug, Args)]
pub struct LearnersArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: LearnersAction,
}

/// What can be done with a service that trains.
#[derive(Debug, Subcommand)]
pub enum LearnersAction {
    /// Train one small batch at a server of the Tinker API, and say what it takes, refuses and gets wrong
    ///
    /// Each loss is computed and followed by one update, and held against its formula; with --path also against the embedded
    /// engine. Numbers of losses, learning rate, ranks, modules, gradient clipping, prompt logprobs, provenance and checkpoints are
    /// tried too. Every model and checkpoint that is made is removed again, also after ctrl-c; what the server keeps is named. Exit
    /// code 1 where something is wrong or failed; what is only refused is no failure.
    Check(LearnersCheckArguments),
}

/// `fulgurite learners check`.
#[derive(Debug, Args)]
pub struct LearnersCheckArguments {
    /// The server, with its path if it has one
    #[arg(value_name = "URL")]
    pub url: String,
    /// The base model by the server's name; without it the only one that it trains
    #[arg(long, value_name = "NAME")]
    pub base_model: Option<String>,
    /// Directory or GGUF file with the same weights, for the embedded engine to be compared with
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Environment variable that holds the server's key
    #[arg(long, value_name = "VARIABLE")]
    pub api_key_env: Option<String>,
    /// Rank of the adapters that are trained
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub lora_rank: u32,
    /// Seconds that one probe may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub timeout: f64,
    /// Print the findings as one JSON object
    #[arg(long)]
    pub json: bool,
}
