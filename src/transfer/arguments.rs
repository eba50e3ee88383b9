//! What `fulgurite export` and `fulgurite import` are told on the command line.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fulgurite_lab::transfer::metrics;
use fulgurite_types::{ListFilter, RolloutExpression, RolloutStatus};

use crate::query::arguments::{RolloutConditions, StoreArguments, rollout_status};

/// What an export holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportWhat {
    /// Everything, from which the store can be made again
    All,
    /// Rollouts and attempts
    Rollouts,
    /// Spans, those of model calls with their tokens
    Spans,
    /// Model calls, token by token, with their spans
    Generations,
    /// Prompt, response and reward of the rollouts' latest attempts
    Triplets,
    /// Messages and tools of the latest attempts' model calls, whoever traced them, as [trainer] source.conversations
    /// takes them; a call that a later one goes on from is part of that
    Conversations,
    /// Metrics of a RUN, for another program
    Metrics,
    /// What the teacher of a RUN of off-policy distillation, or of the config of one (--config), would say in its
    /// conversations, as [trainer] source.form = "soft_targets" takes it
    SoftTargets,
}

/// `fulgurite export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// File to write, in the format of its name: .jsonl or .parquet; of metrics tensorboard, wandb or csv
    #[arg(long, value_name = "FILE|FORMAT")]
    pub to: PathBuf,
    /// Directory that metrics are written into
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// What to write; all but triplets, conversations, metrics and soft-targets can be imported
    #[arg(long, value_name = "WHAT", default_value = "all")]
    pub what: ExportWhat,
    /// Only this run: its directory, or its name below runs/. What is no run is the id of a rollout, which metrics and
    /// soft-targets do not take
    #[arg(value_name = "RUN|ROLLOUT")]
    pub named: Option<String>,
    /// Only this rollout
    #[arg(long, value_name = "ID", conflicts_with = "named")]
    pub rollout: Option<String>,
    /// Which. Runs, resources and workers are not narrowed by it.
    #[command(flatten)]
    pub conditions: RolloutConditions,
    /// Only rollouts that this means, such as 'reward >= 1 and mode = train'; docs/how-to/sft.md has the language
    #[arg(long = "where", value_name = "FILTER")]
    pub expression: Option<RolloutExpression>,
    /// Only of rollouts with this status (repeatable): queuing, preparing, running, failed,
    /// succeeded, cancelled, requeuing
    #[arg(long, value_name = "STATUS", value_parser = rollout_status)]
    pub status: Vec<RolloutStatus>,
    /// Print JSON: one object, at the end
    #[arg(long)]
    pub json: bool,
}

/// For which program metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MetricsFormat {
    /// Event files of TensorBoard.
    Tensorboard,
    /// An offline run of Weights & Biases.
    Wandb,
    /// A row for each step.
    Csv,
}

impl From<MetricsFormat> for metrics::MetricsFormat {
    fn from(format: MetricsFormat) -> Self {
        match format {
            MetricsFormat::Tensorboard => Self::Tensorboard,
            MetricsFormat::Wandb => Self::Wandb,
            MetricsFormat::Csv => Self::Csv,
        }
    }
}

impl ExportArguments {
    /// The flags that are given of those that choose rollouts.
    pub fn flags_on_rollouts(&self) -> Vec<&'static str> {
        let RolloutConditions { mode, run_id, step, since } = &self.conditions;
        let flags = [
            ("--rollout", self.rollout.is_some()),
            ("--mode", mode.is_some()),
            ("--run-id", run_id.is_some()),
            ("--step", step.is_some()),
            ("--since", since.is_some()),
            ("--where", self.expression.is_some()),
            ("--status", !self.status.is_empty()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag).collect()
    }

    /// The conditions, all of them on rollouts: what belongs to one of them is exported with it.
    pub fn filter(&self, rollout_id: Option<&str>) -> ListFilter {
        let filter = self.conditions.filter(rollout_id);
        ListFilter {
            rollout_since: filter.since,
            since: None,
            rollout_status_in: (!self.status.is_empty()).then(|| self.status.clone()),
            ..filter
        }
    }
}

/// `fulgurite import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Files to read, in the formats of their names: .jsonl or .parquet
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub store: StoreArguments,
    /// Print JSON: one object, at the end
    #[arg(long)]
    pub json: bool,
}
