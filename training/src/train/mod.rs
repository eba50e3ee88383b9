//! Training: with a server of its own, beside one, or from data alone.

mod at_server;
mod commands;
mod data_checks;
mod data_report;
mod hosts;
mod last_word;
mod own_server;
mod prepared;
mod rollouts;
mod sft;
mod soft_targets;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Result, bail};
use fulgurite_config::declarations::Config;
use fulgurite_config::trackers::TrackersConfig;
use fulgurite_server::MetricsPage;
use fulgurite_trainer::{FinalWeights, Reporter, StopRule};

pub use self::data_report::data_report;
use self::prepared::Prepared;
pub use self::soft_targets::write_soft_targets;
use crate::notices::Notices;
use crate::silent_reporter::SilentReporter;
use crate::start::options::TrainOptions;

/// Makes what is missing, then trains.
///
/// # Errors
/// If the config, the model or the start is refused; if training fails, or is interrupted. A start that is refused for the
/// weights that are at the server is a [`WeightsInPlace`](fulgurite_lab::records::weights_in_place::WeightsInPlace).
pub async fn train(
    options: TrainOptions,
    metrics: &MetricsPage,
    reporter: Box<dyn Reporter>,
    notices: Arc<dyn Notices>,
) -> Result<()> {
    let server = options.server.clone();
    let prepared = Prepared::new(options, reporter, notices).await?;
    if prepared.loaded.config.trainer.objective.name().learns_from_data() {
        return sft::train(prepared).await;
    }
    match server {
        Some(url) => at_server::train(prepared, url).await,
        None => own_server::train(prepared, metrics).await,
    }
}

/// A run as its config plans it.
pub struct PlannedRun {
    /// The config, with what the command line says in place of it.
    pub config: Config,
    /// Tasks that are scored while it trains.
    pub held_out: usize,
    /// Tasks that are scored at its end.
    pub last: usize,
}

/// Makes one update on one group of a run, in a directory of its own; gives what was planned. `reporter` hears of what is made
/// before.
///
/// # Errors
/// As [`train`], and if the run has no tasks.
pub async fn train_one_group(
    options: TrainOptions,
    run_directory: PathBuf,
    metrics: &MetricsPage,
    reporter: Box<dyn Reporter>,
    notices: Arc<dyn Notices>,
) -> Result<PlannedRun> {
    let mut prepared = Prepared::new(options, reporter, notices).await?;
    let tasks = &mut prepared.tasks;
    let planned =
        PlannedRun { config: prepared.loaded.config.clone(), held_out: tasks.held_out.len(), last: tasks.last.len() };
    tasks.held_out.truncate(1);
    tasks.last.clear();
    let config = &mut prepared.loaded.config;
    if config.trainer.objective.name().learns_from_data() || config.trainer.harvest().is_some() {
        bail!("--dry-run is of runs that have tasks: what is sampled for them is what they cost");
    }
    (config.trainer.common.max_steps, config.store.url) = (Some(1), None);
    (config.trainer.common.patience, config.trainer.common.final_weights) = (None, FinalWeights::Last);
    if let Some(rollouts) = config.trainer.rollouts_mut() {
        (rollouts.groups_per_batch, rollouts.stop) = (1, StopRule::default());
    }
    config.trackers = TrackersConfig::default();
    prepared.options.run_directory = Some(run_directory);
    prepared.reporter = Box::new(SilentReporter);
    own_server::train(prepared, metrics).await?;
    Ok(planned)
}
