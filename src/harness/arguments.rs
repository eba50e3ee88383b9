//! What `fulgurite harness` is told on the command line.

use clap::{Args, Subcommand, ValueEnum};
use fulgurite_harness::KnownAgent;

/// `fulgurite harness`.
#[derive(Debug, Args)]
pub struct HarnessArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: HarnessAction,
}

/// What can be done with a harness.
#[derive(Debug, Subcommand)]
pub enum HarnessAction {
    /// Have an agent's own program play scripted trials, and say how it calls a model and what of it can be trained
    ///
    /// The agent is started as its users start it, at a proxy as `fulgurite run` has it. The model is a script: it has the
    /// agent's shell run a command, then two at once, and ends; once an answer breaks off in its middle, once the model's host
    /// fails, once there is a 429, and once the budget of calls is used up. Exit code 1 where a check failed.
    Check(HarnessCheckArguments),
}

/// `fulgurite harness check`.
#[derive(Debug, Args)]
pub struct HarnessCheckArguments {
    /// The agent, whose program is looked up on PATH
    #[arg(value_name = "NAME", value_enum, required_unless_present = "command", conflicts_with = "command")]
    pub name: Option<Known>,
    /// Seconds that one trial may take
    #[arg(long, value_name = "SECONDS", default_value_t = 180.0)]
    pub timeout: f64,
    /// Print the findings as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Any other agent: program and arguments; {task} is filled in, never through a shell
    #[arg(last = true, value_name = "AGENT")]
    pub command: Vec<String>,
}

/// Agents that are known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Known {
    /// Anthropic's Claude Code
    Claude,
    /// OpenAI's Codex
    Codex,
    /// opencode
    Opencode,
    /// mini-swe-agent
    MiniSweAgent,
    /// Google's Gemini CLI
    Gemini,
}

impl From<Known> for KnownAgent {
    fn from(known: Known) -> Self {
        match known {
            Known::Claude => Self::Claude,
            Known::Codex => Self::Codex,
            Known::Opencode => Self::Opencode,
            Known::MiniSweAgent => Self::MiniSweAgent,
            Known::Gemini => Self::Gemini,
        }
    }
}
