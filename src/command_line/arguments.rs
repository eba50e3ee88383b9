use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};
use fulgurite_terminal::output;

use crate::ask::AskArguments;
use crate::chat::arguments::{CHAT_COMMANDS, ChatArguments};
use crate::dashboard::arguments::DashboardArguments;
use crate::data::arguments::DataArguments;
use crate::doctor::arguments::DoctorArguments;
use crate::enqueue::EnqueueArguments;
use crate::evaluation::arguments::{EXIT_CODES, EvalArguments};
use crate::harness::arguments::HarnessArguments;
use crate::init::InitArguments;
use crate::issued_keys::{ReaderKeyArguments, WorkerKeyArguments};
use crate::learners::arguments::LearnersArguments;
use crate::mcp::arguments::McpArguments;
use crate::model_commands::arguments::ModelArguments;
use crate::plan::arguments::PlanArguments;
use crate::query::arguments::{
    AttemptsArguments, GenerationsArguments, PruneArguments, ResourcesArguments, RewardsArguments, RolloutsArguments,
    ShowArguments, SpansArguments, SqlArguments, StatsArguments, StoreCommandArguments, TripletsArguments,
    WorkersArguments,
};
use crate::regrade::arguments::RegradeArguments;
use crate::report::arguments::ReportArguments;
use crate::rescore::arguments::RescoreArguments;
use crate::reward::arguments::RewardArguments;
use crate::run::arguments::RunArguments;
use crate::runs::arguments::RunsArguments;
use crate::serve::arguments::ServeArguments;
use crate::skills::SkillsArguments;
use crate::sweep::arguments::{SWEEP_EXIT_CODES, SweepArguments};
use crate::template::arguments::TemplateArguments;
use crate::train::arguments::TrainArguments;
use crate::transfer::arguments::{ExportArguments, ImportArguments};
use crate::watch::arguments::WatchArguments;

/// Train any agent by reinforcement learning, unchanged: point its base URL here.
#[derive(Debug, Parser)]
#[command(
    name = "fulgurite",
    version,
    long_version = crate::command_line::version::LONG_VERSION,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What is said of a value that is not what an option takes, in words of the option and not of Rust.
const VALUE_WORDS: [(&str, &str); 5] = [
    ("invalid digit found in string", "it is no whole number, 0 or more"),
    ("number too large to fit in target type", "it is too large"),
    ("number would be zero for non-zero type", "it must be at least 1"),
    ("invalid float literal", "it is no number"),
    ("from empty string", "it is empty"),
];

impl Cli {
    /// What the command line says. One that says nothing that can be done ends the process, with the reason.
    pub fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| {
            if error.kind() == ErrorKind::ValueValidation {
                output::note_piece(plain_value_words(&error.render().to_string()));
                std::process::exit(error.exit_code());
            }
            error.exit()
        })
    }
}

fn plain_value_words(message: &str) -> String {
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    let words = VALUE_WORDS.iter().find(|(rusts, _)| first.ends_with(rusts));
    match words.and_then(|(_, ours)| Some((first.rsplit_once("': ")?.0, ours))) {
        Some((value, ours)) => format!("{value}': {ours}\n{rest}"),
        None => message.to_owned(),
    }
}

/// What a script may want to know.
const TRAIN_EXIT_CODES: &str = "\
Exit codes:
  0  the run is over: the stop rule was met, or the limit of updates reached
  1  it failed, or was interrupted; --resume goes on from its last checkpoint
  2  the command line is wrong";

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write an example out, as the beginning of a project of your own
    Init(InitArguments),
    /// Serve the proxy that agents talk to, the store's API and the models
    Serve(ServeArguments),
    /// Train a policy by the rollouts of an unmodified agent; makes what is missing first
    #[command(after_help = TRAIN_EXIT_CODES)]
    Train(TrainArguments),
    /// Say what a run needs of GPU and memory, whether that fits, and what to change
    Plan(PlanArguments),
    /// Look at a run's conversations or comparisons: counts, lengths, what is left out, what is trained of them
    Data(DataArguments),
    /// Train a config with several values of its keys, each with the same seeds, and compare them
    #[command(after_help = SWEEP_EXIT_CODES)]
    Sweep(SweepArguments),
    /// Score the held-out tasks of a config, each played several times, by a model or a checkpoint as it is
    #[command(after_help = EXIT_CODES)]
    Eval(EvalArguments),
    /// Grade recorded rollouts again, by another grader or one that was mended, without sampling anew
    Regrade(RegradeArguments),
    /// Score the tokens that a run has sampled under other weights: what was learnt, token by token
    Rescore(RescoreArguments),
    /// Talk to a model, a checkpoint or a run, here or at a server
    #[command(after_help = CHAT_COMMANDS)]
    Chat(ChatArguments),
    /// Ask a model one question: an agent of one call, warm or not
    Ask(AskArguments),
    /// Run an unmodified agent once for each rollout on the queue
    Run(RunArguments),
    /// Put tasks on a server's queue, for its runners
    Enqueue(EnqueueArguments),
    /// Reward a recorded rollout or session, at its server or in its store
    Reward(RewardArguments),
    /// Print a key for runners elsewhere (`run --attach`) that are not trusted with the admin key
    WorkerKey(WorkerKeyArguments),
    /// Print a key that reads everything and changes nothing, for who looks at the page
    ReaderKey(ReaderKeyArguments),
    /// List the rollouts of a store, newest last
    Rollouts(RolloutsArguments),
    /// List attempts at rollouts
    Attempts(AttemptsArguments),
    /// List spans
    Spans(SpansArguments),
    /// List generations: the model calls, token by token
    Generations(GenerationsArguments),
    /// Say of each call whether it went on, token by token, where an earlier one ended, and if not why
    Drift(GenerationsArguments),
    /// List triplets (prompt, response, reward)
    Triplets(TripletsArguments),
    /// List rewards
    Rewards(RewardsArguments),
    /// List workers
    Workers(WorkersArguments),
    /// List resources
    Resources(ResourcesArguments),
    /// Show one rollout whole: its calls, answers and rewards
    Show(ShowArguments),
    /// Write runs as one page of HTML: curves, tokens, best and worst answers; or draw one metric
    Report(ReportArguments),
    /// List runs, show one, or compare two: scores, tokens and what they cost
    Runs(RunsArguments),
    /// Watch a run on the terminal, while it goes on or after: curves, alarms, the last reply
    Watch(WatchArguments),
    /// Show the page of a run or a store that nobody serves, in a browser
    Dashboard(DashboardArguments),
    /// Say what is amiss with a run, or missing on this machine, and what to do
    Doctor(DoctorArguments),
    /// Check how an agent's own program calls a model, and what of it can be trained
    Harness(HarnessArguments),
    /// Check what a server that trains takes, and whether its numbers are right
    Learners(LearnersArguments),
    /// Look at what a model is given and at what it said, token by token
    Template(TemplateArguments),
    /// Serve the tools by which a coding agent trains models, over the Model Context Protocol
    Mcp(McpArguments),
    /// Fetch a model, look at one, or make another of it
    Model(ModelArguments),
    /// Teach a coding agent how to do research with this program
    Skills(SkillsArguments),
    /// Count what a store holds
    Stats(StatsArguments),
    /// Run one SQL query on a store, which cannot be changed by it
    Sql(SqlArguments),
    /// Write a store, or a part of it, to a file
    Export(ExportArguments),
    /// Read exported files into a store; what is there already stays as it is
    Import(ImportArguments),
    /// Delete rollouts that ended long ago, with all that belongs to them
    Prune(PruneArguments),
    /// Check a store, or renew its checksums
    Store(StoreCommandArguments),
    /// Show the config that is in force and where each value came from
    Config(ConfigArguments),
    /// Print a shell's script that completes the command's words
    Completions(CompletionsArguments),
    /// Print the page for `man`, or write those of all commands
    Man(ManArguments),
}

/// `fulgurite config`.
#[derive(Debug, Args)]
pub struct ConfigArguments {
    /// What of it.
    #[command(subcommand)]
    pub action: ConfigAction,
}

/// `fulgurite config show`.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Print every key with its value and where the value came from
    Show {
        /// Config file
        #[arg(long, value_name = "FILE", env = "FULGURITE_CONFIG")]
        config: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `fulgurite completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// For which shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

/// `fulgurite man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Write a page for each command into this directory, in place of printing one
    #[arg(long, value_name = "DIR")]
    pub to: Option<PathBuf>,
    /// Print all commands as Markdown
    #[arg(long, conflicts_with = "to")]
    pub markdown: bool,
}
