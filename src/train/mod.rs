//! `fulgurite train`: its command line, and what it prints.

pub mod arguments;
#[cfg(test)]
mod printed_commands;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use fulgurite_config::declarations::Config;
use fulgurite_lab::records::weights_in_place::WeightsInPlace;
use fulgurite_server::MetricsPage;
use fulgurite_terminal::notices::TerminalNotices;
use fulgurite_terminal::output;
use fulgurite_terminal::reporters::{JsonReporter, TableReporter};
use fulgurite_trainer::Reporter;
use fulgurite_training::train::{self, PlannedRun};
use serde_json::json;

use crate::train::arguments::TrainArguments;

/// Makes what is missing, then trains.
pub async fn train(arguments: TrainArguments) -> Result<()> {
    let metrics = MetricsPage::install()?;
    let (is_json, reporter) = (arguments.json, reporter(&arguments, &metrics));
    let trained = train::train(arguments.options(), &metrics, reporter, Arc::new(TerminalNotices)).await;
    if let Err(error) = &trained
        && let Some(in_place) = error.downcast_ref::<WeightsInPlace>().filter(|_| is_json)
    {
        let mut event = json!(in_place);
        event["event"] = "weights_in_place".into();
        output::line(event);
    }
    trained
}

/// Makes one update on one group of a run, in a directory of its own and without a word; gives what was planned.
pub async fn train_one_group(arguments: TrainArguments, run_directory: PathBuf) -> Result<PlannedRun> {
    let metrics = MetricsPage::install()?;
    let reporter = reporter(&arguments, &metrics);
    train::train_one_group(arguments.options(), run_directory, &metrics, reporter, Arc::new(TerminalNotices)).await
}

fn reporter(arguments: &TrainArguments, metrics: &MetricsPage) -> Box<dyn Reporter> {
    if arguments.json {
        return Box::new(JsonReporter);
    }
    let sampled = metrics.clone();
    Box::new(TableReporter::new(Some(Box::new(move || sampled.sampled_tokens()))))
}

/// Puts what the command line or the environment says in place of what the config does.
pub fn override_by_flags(config: &mut Config, arguments: TrainArguments) {
    arguments.options().override_config(config);
}
