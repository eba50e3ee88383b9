use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::ask::AskArguments;
use crate::chat::arguments::{CHAT_COMMANDS, ChatArguments};
use crate::cli::output;
use crate::config::overrides::Override;
use crate::dashboard::arguments::DashboardArguments;
use crate::doctor::arguments::DoctorArguments;
use crate::enqueue::EnqueueArguments;
use crate::evaluation::arguments::{EXIT_CODES, EvalArguments};
use crate::harness::arguments::HarnessArguments;
use crate::init::InitArguments;
use crate::issued_keys::{ReaderKeyArguments, WorkerKeyArguments};
use crate::mcp::arguments::McpArguments;
use crate::models::arguments::{Elements, ModelExportArguments, ModelRollbackArguments};
use crate::models::fetch::ModelFetchArguments;
use crate::query::arguments::{
    AttemptsArguments, ExportArguments, GenerationsArguments, ImportArguments, PruneArguments, ResourcesArguments,
    RewardsArguments, RolloutsArguments, ShowArguments, SpansArguments, SqlArguments, StatsArguments,
    StoreCommandArguments, TripletsArguments, WorkersArguments,
};
use crate::regrade::arguments::RegradeArguments;
use crate::rescore::arguments::RescoreArguments;
use crate::reward::arguments::RewardArguments;
use crate::runs::arguments::RunsArguments;
use crate::skills::SkillsArguments;
use crate::sweep::arguments::{SWEEP_EXIT_CODES, SweepArguments};
use crate::watch::arguments::WatchArguments;

/// Train any agent by reinforcement learning, unchanged: point its base URL here.
#[derive(Debug, Parser)]
#[command(
    name = "fulgurite",
    version,
    long_version = crate::cli::version::LONG_VERSION,
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

fn plain_value_words(said: &str) -> String {
    let (first, rest) = said.split_once('\n').unwrap_or((said, ""));
    let words = VALUE_WORDS.iter().find(|(rusts, _)| first.ends_with(rusts));
    match words.and_then(|(_, ours)| Some((first.rsplit_once("': ")?.0, ours))) {
        Some((value, ours)) => format!("{value}': {ours}\n{rest}"),
        None => said.to_owned(),
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
    /// Say what is amiss with a run, and what to do
    Doctor(DoctorArguments),
    /// Check how an agent's own program calls a model, and what of it can be trained
    Harness(HarnessArguments),
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
}

/// `fulgurite serve`. What the environment can say in place of a key of the config has that key for its id, by which
/// `config show` finds it; so it is with `train`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Config file
    #[arg(long, value_name = "FILE", env = "FULGURITE_CONFIG")]
    pub config: Option<PathBuf>,
    /// Address to listen on; port 0 takes a free one
    #[arg(id = "server.listen", long = "listen", value_name = "ADDRESS", env = "FULGURITE_LISTEN")]
    pub listen: Option<String>,
    /// Write {"url": ..., "pid": ...} here once it answers
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Where everything is recorded: sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE
    #[arg(id = "store.url", long = "store", value_name = "URL", env = "FULGURITE_STORE", hide_env_values = true)]
    pub store: Option<String>,
    /// Serve a model: NAME=embedded:DIRECTORY|FILE.gguf[,renderer=NAME][,tools=preamble], at a remote host
    /// NAME=vllm|sglang|llama-cpp|tinker:URL,path=DIRECTORY[,renderer=NAME][,tools=preamble][,api_key_env=VARIABLE], or by passing
    /// its calls on NAME=openai|anthropic:URL[,upstream_model=NAME][,api_key_env=VARIABLE] (repeatable)
    #[arg(long = "model", value_name = "SPEC")]
    pub models: Vec<String>,
    /// Seconds between looks for attempts that are out of time or silent; 0 looks before each call of
    /// Agent-lightning's API instead
    #[arg(
        id = "server.watchdog_interval",
        long = "watchdog-interval",
        value_name = "SECONDS",
        env = "FULGURITE_WATCHDOG_INTERVAL"
    )]
    pub watchdog_interval: Option<f64>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite train`.
#[derive(Debug, Args)]
pub struct TrainArguments {
    /// Config file: TOML, of which docs/config.md has every key
    #[arg(value_name = "CONFIG")]
    pub config: PathBuf,
    /// Seed of the base model and of the run, in place of the config's
    #[arg(id = "run.seed", long = "seed", value_name = "N", env = "FULGURITE_SEED")]
    pub seed: Option<u64>,
    /// Train as a daemon beside the server at this URL, which keeps the record and samples for its agents, in place of a
    /// server of its own; its admin key, if it has one, is taken from where the config's [server] says, or from
    /// FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", conflicts_with = "ready_file")]
    pub server: Option<String>,
    /// Go on with the latest run of this config and seed from its last checkpoint
    #[arg(long)]
    pub resume: bool,
    /// Begin a new run although somebody's weights are behind the model of --server, and put the config's in their place
    #[arg(long, requires = "server", conflicts_with = "resume")]
    pub start_over: bool,
    /// Go on although other weights are behind the model of --server than the run's newest, and put its checkpoint's in
    /// their place
    #[arg(long, requires_all = ["server", "resume"])]
    pub replace_weights: bool,
    /// Put a value in place of a key of the config (repeatable): trainer.learning_rate=3e-4, models.0.lora_rank=8; the
    /// value is TOML, or text without quotes
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub overrides: Vec<Override>,
    /// Directory of the run, in place of a new one below the config's [run] directory
    #[arg(long, value_name = "DIR")]
    pub run_directory: Option<PathBuf>,
    /// Updates at most, in place of the config's
    #[arg(id = "trainer.max_steps", long = "max-steps", value_name = "N", env = "FULGURITE_MAX_STEPS")]
    pub max_steps: Option<u64>,
    /// Updates that the run may make before it waits for leave to make more, which the record of its server, or
    /// --allowed-steps of a resumption, gives; what it has learnt until then is in a checkpoint
    #[arg(long, value_name = "N")]
    pub allowed_steps: Option<u64>,
    /// Make one update on one group, of which nothing is kept, and say what the whole run would take
    #[arg(long, conflicts_with_all = ["server", "resume", "run_directory", "ready_file"])]
    pub dry_run: bool,
    /// Write {"url": ..., "pid": ...} here once the server answers
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
    /// Take {"allowed_steps": N} on lines of standard input, and be interrupted when that is closed: whoever started it may
    /// have died
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
    /// Print JSON, one object a line: one for each step and each warning, and a summary at the end
    #[arg(long)]
    pub json: bool,
    /// The agent's command, in place of the config's [runner] command
    #[arg(last = true, value_name = "AGENT")]
    pub agent: Vec<String>,
}

/// `fulgurite run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// Server whose queue is worked off; its admin key, if it has one, is taken from FULGURITE_ADMIN_KEY
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4747", env = "FULGURITE_SERVER")]
    pub server: String,
    /// With a worker's key (FULGURITE_WORKER_KEY) in place of the admin key, as from within a sandbox that can only call out
    #[arg(long)]
    pub attach: bool,
    /// Name of this runner in the store; a new one of the same name takes over what the old one held
    #[arg(long, value_name = "ID")]
    pub worker_id: Option<String>,
    /// Config whose [runner] says what is run and in what worlds; what is given here comes before it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What a run has its runner do.
    #[arg(long, value_name = "JSON", hide = true, conflicts_with = "config")]
    pub settings: Option<String>,
    /// Agents at a time [default: 4, or the config's]
    #[arg(long, value_name = "N")]
    pub parallel: Option<usize>,
    /// The agent is one process that reads tasks as lines from its standard input and writes answers as lines; see
    /// docs/warm-agents.md
    #[arg(long)]
    pub warm: bool,
    /// Program that grades: run after the agent with its output on stdin, prints {"reward": 1.0}.
    /// One string, split at spaces; {task} and {task.FIELD} are filled in
    #[arg(long, value_name = "COMMAND")]
    pub grade: Option<String>,
    /// The same, one word at a time (repeatable)
    #[arg(long, value_name = "WORD", conflicts_with = "grade", allow_hyphen_values = true)]
    pub grade_word: Vec<String>,
    /// Seconds that agent and grader may take together; then their whole process group is killed [default: 600, or the
    /// config's]
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<f64>,
    /// Directory that worlds are made in, one of each attempt [default: a directory of this user's among the system's
    /// temporary files]
    #[arg(long, value_name = "DIR")]
    pub worlds: Option<PathBuf>,
    /// Directory that the agent is started in
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Leave when the queue is empty and nothing runs
    #[arg(long)]
    pub until_idle: bool,
    /// Leave, and kill the agents, when standard input is closed
    #[arg(long)]
    pub until_stdin_closes: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
    /// The agent: program and arguments; {task} and {task.FIELD} are filled in, never through a shell
    #[arg(last = true, required_unless_present_any = ["config", "settings"], value_name = "AGENT")]
    pub agent: Vec<String>,
}

/// `fulgurite report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Directories of runs, or of sweeps, whose runs are meant; for --svg also files of runs' metrics
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Draw this metric alone over the updates, a line for each run, as an SVG picture; the held-out reward is
    /// test/env/all/reward/total
    #[arg(long, value_name = "METRIC")]
    pub svg: Option<String>,
    /// Write it here, in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
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

/// `fulgurite model`.
#[derive(Debug, Args)]
pub struct ModelArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: ModelAction,
}

/// What can be done with a model directory.
#[derive(Debug, Subcommand)]
pub enum ModelAction {
    /// Say what a model is, and whether this machine can sample and train it
    ///
    /// Reads the configuration and the names, shapes and element types of the tensors, not the weights. Exit code 1, with
    /// the field or tensor at fault, where the embedded engine cannot run it.
    Inspect(ModelInspectArguments),
    /// Fetch a model from Hugging Face's hub
    ///
    /// What a model directory needs (configuration, tokenizer, templates, *.safetensors), or files by name; each is
    /// checked by the hub's digest, and none stands under its name before all are whole. The same command goes on where
    /// an interrupted one stopped. HF_TOKEN holds the token for models that are gated or private, HF_ENDPOINT the address
    /// of another hub.
    Fetch(ModelFetchArguments),
    /// Write a model into one file of one element type, with its tokenizer
    Convert(ModelConvertArguments),
    /// Write a model with a LoRA adapter, in PEFT's format, added to its weights
    Merge(ModelMergeArguments),
    /// Write what a run has trained, or another model, in a form that other programs read
    ///
    /// An adapter for PEFT, a whole model in Hugging Face's format, or a GGUF file for llama.cpp. Prints where it is.
    Export(ModelExportArguments),
    /// Put an earlier checkpoint's weights back behind a model that is served
    ///
    /// The server reads them from the directory of the run, which it must see under the same path. They stay behind the
    /// model, over a restart of the server too, until others are put there, as by the next update of a run that still
    /// trains it.
    Rollback(ModelRollbackArguments),
}

/// `fulgurite model convert`.
#[derive(Debug, Args)]
pub struct ModelConvertArguments {
    /// Model directory in Hugging Face's format, or a model in a GGUF file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Directory to be made
    #[arg(value_name = "OUTPUT_DIR")]
    pub output_dir: PathBuf,
    /// What the numbers become: f32 unless told otherwise; of a GGUF file bf16 if it is quantised, and else what it has
    #[arg(long, value_name = "TYPE")]
    pub dtype: Option<Elements>,
}

/// `fulgurite model merge`.
#[derive(Debug, Args)]
pub struct ModelMergeArguments {
    /// Model directory in Hugging Face's format
    #[arg(value_name = "MODEL_DIR")]
    pub model_dir: PathBuf,
    /// Directory of the adapter
    #[arg(value_name = "ADAPTER_DIR")]
    pub adapter_dir: PathBuf,
    /// Directory to be made
    #[arg(value_name = "OUTPUT_DIR")]
    pub output_dir: PathBuf,
    /// What the numbers become
    #[arg(long, value_name = "TYPE", default_value = "f32")]
    pub dtype: Elements,
}

/// `fulgurite model inspect`.
#[derive(Debug, Args)]
pub struct ModelInspectArguments {
    /// Model directory in Hugging Face's format, or a GGUF file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite template`.
#[derive(Debug, Args)]
pub struct TemplateArguments {
    /// What to do.
    #[command(subcommand)]
    pub action: TemplateAction,
}

/// What can be done with a template.
#[derive(Debug, Subcommand)]
pub enum TemplateAction {
    /// Say what a model's chat template is good for
    ///
    /// Whether conversations stay append-only and what the template rewrites, whether new messages are rendered without
    /// the history before them, at which tokens turns end, whether text can forge control tokens, what is shown of
    /// tools and roles, and whether prompts tell the date. Exit code 1 where a fault was found.
    Check(TemplateCheckArguments),
    /// Turn conversations into tokens
    ///
    /// Reads JSON lines: {"messages": [...], "tools": [...]}, and with "train_on" (last_assistant_message,
    /// last_assistant_turn, all_assistant_messages, all_messages, all_tokens, all_user_and_system_messages, customized)
    /// the sequences to train on. Prints one line for each: {"tokens": [...], "text": "...", "stop": [...]}, with
    /// "segments": [[weight, text], ...] and "examples" to train on, or {"error": "..."}.
    Render(TemplateRenderArguments),
    /// Turn sampled tokens into messages
    ///
    /// Reads JSON lines: {"tokens": [...]}, with "prompt", the tokens before them (without it, those that ask for an
    /// answer to one message), and the request's "tools". Prints one line for each: {"message": {...},
    /// "termination": "stop_sequence" | "eos" | "malformed"}, or {"error": "..."}.
    Parse(TemplateParseArguments),
}

/// `fulgurite template check`.
#[derive(Debug, Args)]
pub struct TemplateCheckArguments {
    /// Model directory: its tokenizer and chat template
    #[arg(value_name = "MODEL_DIR")]
    pub model_dir: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite template render`.
#[derive(Debug, Args)]
pub struct TemplateRenderArguments {
    #[command(flatten)]
    pub renderer: RendererArguments,
    /// File of rows, in place of standard input
    #[arg(value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

/// `fulgurite template parse`.
#[derive(Debug, Args)]
pub struct TemplateParseArguments {
    #[command(flatten)]
    pub renderer: RendererArguments,
    /// File of rows, in place of standard input
    #[arg(value_name = "FILE")]
    pub rows: Option<PathBuf>,
}

/// Which renderer.
#[derive(Debug, Args)]
pub struct RendererArguments {
    /// Model directory: its tokenizer and chat template
    #[arg(long, value_name = "DIR", required_unless_present = "tokenizer", conflicts_with = "tokenizer")]
    pub model: Option<PathBuf>,
    /// A tokenizer.json; the files beside it are read too
    #[arg(long, value_name = "FILE")]
    pub tokenizer: Option<PathBuf>,
    /// How conversations are written: auto, template, chatml, or the name of a format such as qwen3_5
    #[arg(id = "renderer", long = "renderer", value_name = "NAME", default_value = "auto")]
    pub name: String,
    /// Reproduce tinker-cookbook token for token, faults included
    #[arg(long)]
    pub cookbook_exact: bool,
    /// What formats that tell the model the date say that it is, in place of today's
    #[arg(long, value_name = "YYYY-MM-DD")]
    pub current_date: Option<String>,
}

/// `fulgurite completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// For which shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}
