//! What the queries are told on the command line.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use fulgurite_agentlightning::RewardMatch;
use fulgurite_lab::queries::listing::{ListRequest, SortOrder};
use fulgurite_lab::queries::named_store::NamedStore;
use fulgurite_lab::transfer::attempt_triplets::TripletAdapter;
use fulgurite_types::{AttemptStatus, ListFilter, RolloutExpression, RolloutMode, RolloutStatus, WorkerStatus};
use regex::Regex;

use fulgurite_lab::time;

/// Which store.
#[derive(Debug, Args)]
pub struct StoreArguments {
    /// Store: sqlite://FILE or postgres://...; without --store and --run the config's, else
    /// sqlite://fulgurite.db [env: FULGURITE_STORE]
    #[arg(long, value_name = "URL", conflicts_with = "run")]
    pub store: Option<String>,
    /// Training run whose store is meant: its directory, or its name below runs/
    #[arg(long, value_name = "DIR")]
    pub run: Option<PathBuf>,
    /// Config file whose store is meant
    #[arg(long, value_name = "FILE", conflicts_with_all = ["store", "run"])]
    pub config: Option<PathBuf>,
}

impl StoreArguments {
    /// What they name.
    pub fn named(&self) -> NamedStore {
        NamedStore { url: self.store.clone(), run: self.run.clone(), config: self.config.clone() }
    }
}

/// Which rollouts, or records of which rollouts.
#[derive(Debug, Args)]
pub struct RolloutSelection {
    /// Only this rollout, by its id or by the name of the session that it records
    #[arg(value_name = "ROLLOUT")]
    pub id: Option<String>,
    /// Only this rollout, by its id or by the name of the session that it records
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    pub rollout: Option<String>,
    /// What else is asked of them.
    #[command(flatten)]
    pub conditions: RolloutConditions,
}

/// Conditions on rollouts, whichever are named.
#[derive(Debug, Args)]
pub struct RolloutConditions {
    /// Only of rollouts with this mode: train, val, test
    #[arg(long, value_name = "MODE", value_parser = mode)]
    pub mode: Option<RolloutMode>,
    /// Only of rollouts of this training run
    #[arg(long, value_name = "ID")]
    pub run_id: Option<String>,
    /// Only of rollouts that were made for this step of their run
    #[arg(long, value_name = "N")]
    pub step: Option<i64>,
    /// Only what began at this time or later: 90s, 10m, 2h or 30d ago, or 2026-11-21T15:04:05Z
    #[arg(long, value_name = "TIME", value_parser = time::parse_since)]
    pub since: Option<f64>,
}

impl RolloutSelection {
    /// The rollout that is named, if one is.
    pub fn rollout_id(&self) -> Option<&str> {
        self.id.as_deref().or(self.rollout.as_deref())
    }

    /// The conditions of this selection.
    pub fn filter(&self) -> ListFilter {
        self.conditions.filter(self.rollout_id())
    }
}

impl RolloutConditions {
    /// These conditions on one rollout, or on all.
    pub fn filter(&self, rollout_id: Option<&str>) -> ListFilter {
        ListFilter {
            rollout_id_in: rollout_id.map(|id| vec![id.to_owned()]),
            mode: self.mode,
            run_id: self.run_id.clone(),
            step: self.step,
            since: self.since,
            ..ListFilter::default()
        }
    }
}

/// How much of a list, and how it is printed.
#[derive(Debug, Args)]
pub struct ListArguments {
    /// Only the newest so many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Sort by this field of the record, greatest last, in place of the order in which they were made
    #[arg(long, value_name = "FIELD")]
    pub sort: Option<String>,
    /// Least last, and with a limit only the least
    #[arg(long, requires = "sort")]
    pub reverse: bool,
    /// Keep printing what is new, until Ctrl-C
    #[arg(long, conflicts_with = "sort")]
    pub follow: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

impl ListArguments {
    /// The part of the list that they name.
    pub fn request(&self) -> ListRequest<'_> {
        ListRequest {
            limit: (!self.all).then_some(self.limit),
            sort: self.sort.as_deref(),
            order: if self.reverse { SortOrder::Descending } else { SortOrder::Ascending },
        }
    }
}

/// `fulgurite rollouts`.
#[derive(Debug, Args)]
pub struct RolloutsArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Which.
    #[command(flatten)]
    pub selection: RolloutSelection,
    /// Only with this status (repeatable): queuing, preparing, running, failed, succeeded, cancelled,
    /// requeuing
    #[arg(long, value_name = "STATUS", value_parser = rollout_status, conflicts_with = "follow")]
    pub status: Vec<RolloutStatus>,
    /// Only rollouts that this means, such as 'reward >= 1 and mode = train', of which --limit leaves the newest;
    /// docs/how-to/sft.md has the language
    #[arg(long = "where", value_name = "FILTER", conflicts_with = "follow")]
    pub expression: Option<RolloutExpression>,
    /// How much.
    #[command(flatten)]
    pub list: ListArguments,
}

/// `fulgurite attempts`.
#[derive(Debug, Args)]
pub struct AttemptsArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Which.
    #[command(flatten)]
    pub selection: RolloutSelection,
    /// Only with this status (repeatable): preparing, running, failed, succeeded, unresponsive,
    /// timeout
    #[arg(long, value_name = "STATUS", value_parser = attempt_status, conflicts_with = "follow")]
    pub status: Vec<AttemptStatus>,
    /// Only those of this worker
    #[arg(long, value_name = "ID")]
    pub worker: Option<String>,
    /// How much.
    #[command(flatten)]
    pub list: ListArguments,
}

/// `fulgurite spans`.
#[derive(Debug, Args)]
pub struct SpansArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Which.
    #[command(flatten)]
    pub selection: RolloutSelection,
    /// Only of this attempt
    #[arg(long, value_name = "ID")]
    pub attempt: Option<String>,
    /// Only those with this name
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// How much.
    #[command(flatten)]
    pub list: ListArguments,
}

/// `fulgurite generations`.
#[derive(Debug, Args)]
pub struct GenerationsArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Which.
    #[command(flatten)]
    pub selection: RolloutSelection,
    /// Only of this attempt
    #[arg(long, value_name = "ID")]
    pub attempt: Option<String>,
    /// Only of this model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// How much.
    #[command(flatten)]
    pub list: ListArguments,
}

/// `fulgurite rewards`.
#[derive(Debug, Args)]
pub struct RewardsArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Which.
    #[command(flatten)]
    pub selection: RolloutSelection,
    /// Only of this attempt
    #[arg(long, value_name = "ID")]
    pub attempt: Option<String>,
    /// How much.
    #[command(flatten)]
    pub list: ListArguments,
}

/// `fulgurite triplets`.
#[derive(Debug, Args)]
pub struct TripletsArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Which.
    #[command(flatten)]
    pub selection: RolloutSelection,
    /// Only those of the newest so many rollouts
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
    /// Those of all rollouts
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Whose spans are read: auto reads all of them and counts each call once; tracer and llm-proxy
    /// are Agent-lightning's adapters
    #[arg(long, value_name = "ADAPTER", default_value = "auto")]
    pub adapter: Adapter,
    /// Only calls of agents in whose name this is found
    #[arg(long, value_name = "REGEX")]
    pub agent: Option<Regex>,
    /// A tracer's span is a model call if this is found in its name, in place of
    /// openai\.chat\.completion
    #[arg(long, value_name = "REGEX")]
    pub llm_call: Option<Regex>,
    /// Which call gets a reward that names none: the latest before it, or the latest with its parent
    #[arg(long, value_name = "MATCH")]
    pub reward: Option<RewardPolicy>,
    /// Say of every other span why it is no triplet; done anyway if a ROLLOUT has none
    #[arg(long)]
    pub why: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// Whose spans are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Adapter {
    /// Everybody's.
    Auto,
    /// A tracer's.
    Tracer,
    /// LiteLLM's.
    LlmProxy,
}

impl From<Adapter> for TripletAdapter {
    fn from(adapter: Adapter) -> Self {
        match adapter {
            Adapter::Auto => Self::Any,
            Adapter::Tracer => Self::Tracer,
            Adapter::LlmProxy => Self::LlmProxy,
        }
    }
}

/// Which call gets a reward that names none.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RewardPolicy {
    /// The latest before it.
    FirstOccurrence,
    /// The latest with its parent.
    FirstSibling,
}

impl From<RewardPolicy> for RewardMatch {
    fn from(policy: RewardPolicy) -> Self {
        match policy {
            RewardPolicy::FirstOccurrence => Self::FirstOccurrence,
            RewardPolicy::FirstSibling => Self::FirstSibling,
        }
    }
}

/// `fulgurite workers`.
#[derive(Debug, Args)]
pub struct WorkersArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Only this worker
    #[arg(value_name = "WORKER")]
    pub id: Option<String>,
    /// Only with this status (repeatable): idle, busy, unknown
    #[arg(long, value_name = "STATUS", value_parser = worker_status)]
    pub status: Vec<WorkerStatus>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite resources`.
#[derive(Debug, Args)]
pub struct ResourcesArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Only these resources
    #[arg(value_name = "RESOURCES")]
    pub id: Option<String>,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite show`.
#[derive(Debug, Args)]
pub struct ShowArguments {
    /// The rollout, by its id or by the name of the session that it records
    #[arg(value_name = "ROLLOUT")]
    pub rollout: String,
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// One line for each sampled token: its id, its logprob, and its text if the tokenizer is known
    #[arg(long)]
    pub tokens: bool,
    /// tokenizer.json or its directory; by default those of the config's [[models]] are tried, with --run those of the run
    #[arg(long, value_name = "FILE", requires = "tokens")]
    pub tokenizer: Option<PathBuf>,
    /// Print JSON: one object
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite prune`.
#[derive(Debug, Args)]
pub struct PruneArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Delete rollouts that ended longer ago than this: 90s, 10m, 2h, 30d, 4w
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    pub older_than: f64,
    /// Only with this status (repeatable): failed, succeeded, cancelled [default: all three]
    #[arg(long, value_name = "STATUS", value_parser = finished_status)]
    pub status: Vec<RolloutStatus>,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print JSON: one object
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite stats`.
#[derive(Debug, Args)]
pub struct StatsArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Print JSON: one object
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite sql`.
#[derive(Debug, Args)]
pub struct SqlArguments {
    /// One query, in the database's own dialect. Token ids are packed as little-endian u32, logprobs
    /// as little-endian f32: a table shows bytes in hexadecimal, --json lists
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Print JSON, one object a line
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite store`.
#[derive(Debug, Args)]
pub struct StoreCommandArguments {
    /// What to do with it.
    #[command(subcommand)]
    pub action: StoreAction,
}

/// The subcommands of `fulgurite store`.
#[derive(Debug, Subcommand)]
pub enum StoreAction {
    /// Look at every row of a store and tell what is wrong with it; exit code 1 if anything is
    Check(CheckArguments),
    /// Take rollouts and attempts as they are for what was recorded, and write their checksums anew:
    /// for a store that an older version changed after a newer one. Spans, rewards and generations keep theirs
    RenewChecksums(RenewChecksumsArguments),
}

/// `fulgurite store renew-checksums`.
#[derive(Debug, Args)]
pub struct RenewChecksumsArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Say what would be taken for granted, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print JSON, one object for each table
    #[arg(long)]
    pub json: bool,
}

/// `fulgurite store check`.
#[derive(Debug, Args)]
pub struct CheckArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Print JSON, one object for each violation
    #[arg(long)]
    pub json: bool,
}

/// A status that a rollout ends with.
fn finished_status(word: &str) -> Result<RolloutStatus> {
    match rollout_status(word) {
        Ok(status) if status.is_finished() => Ok(status),
        _ => bail!("not one of failed, succeeded, cancelled"),
    }
}

/// The value of one of an enum's words; the error names all of them.
macro_rules! word {
    ($visibility:vis $function:ident, $name:ident) => {
        $visibility fn $function(word: &str) -> Result<$name> {
            let Some(value) = $name::from_word(word) else {
                let words: Vec<&str> = $name::ALL.iter().map(|value| value.as_str()).collect();
                bail!("not one of {}", words.join(", "));
            };
            Ok(value)
        }
    };
}

word!(pub mode, RolloutMode);
word!(pub rollout_status, RolloutStatus);
word!(attempt_status, AttemptStatus);
word!(worker_status, WorkerStatus);
