//! What `fulgurite mcp` is told on the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fulgurite_mcp::Autocheckpoint;

/// What the tools are told on the command line.
#[derive(Debug, Args)]
pub struct McpArguments {
    /// Directory of models, graders and runs, which is made when it is missing; files that the agent names are this project's,
    /// which is the working directory
    #[arg(long, value_name = "DIR", default_value = "fulgurite")]
    pub directory: PathBuf,
    /// A config that runs may be begun with (repeatable): the commands in it run outside of a sandbox
    #[arg(long = "config", value_name = "FILE")]
    pub configs: Vec<PathBuf>,
    /// Train beside the server at this URL, in place of a server for each run; its admin key is taken from FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Serve them at this address, below /mcp as streamable HTTP, in place of standard input and output; with
    /// FULGURITE_ADMIN_KEY only who has that key is answered
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Write {"url": ..., "pid": ...} here once the server answers
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub ready_file: Option<PathBuf>,
    /// Which tools there are
    #[arg(long, value_name = "SET", value_enum, default_value_t = ToolSetName::Own)]
    pub tools: ToolSetName,
    /// Seconds that a call waits for another to end before it is told that the session is busy; -1 for as long as it takes
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, allow_negative_numbers = true)]
    pub lock_seconds: f64,
    /// Run the agent's graders without a sandbox, with all that you may do
    #[arg(long)]
    pub unsafe_grader: bool,
    /// Seconds that a grader may take for one answer
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub grader_seconds: f64,
    /// Tokens that all runs of the directory together may sample
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// Seconds that the steps of all runs of the directory together may take
    #[arg(long, value_name = "SECONDS")]
    pub max_seconds: Option<f64>,
    /// Money that all runs of the directory together may cost, by the [prices] of --prices or of their configs
    #[arg(long, value_name = "AMOUNT")]
    pub max_money: Option<f64>,
    /// Config file whose [prices] count
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Mean reward of a step from which on its checkpoint is given a name by itself
    #[arg(long, value_name = "REWARD", default_value_t = Autocheckpoint::default().reward, allow_negative_numbers = true)]
    pub autocheckpoint_reward: f64,
    /// Updates before that
    #[arg(long, value_name = "N", default_value_t = Autocheckpoint::default().updates)]
    pub autocheckpoint_after: u64,
}

/// The sets of tools, as they are named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ToolSetName {
    /// All of our own
    Own,
    /// Eight, by the names that Tinkerer's agents know
    Tinkerer,
}
