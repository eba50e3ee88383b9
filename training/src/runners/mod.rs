//! The runner of a run or of an evaluation: a child process, or others that were started elsewhere.

pub(crate) mod policy_server;
mod process;
pub mod settings;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::runner::tried_again;
use fulgurite_server::RunningServer;
use fulgurite_store::AdminKey;
use fulgurite_trainer::{Record, Reporter, TrainEvent};
use fulgurite_types::RolloutConfig;
use tokio::sync::watch;

use self::process::{RunnerCommand, RunnerProcess};
use self::settings::RunnerSettings;
use crate::auxiliary::served_models;
use crate::upload_keys::upload_keys;

/// The server of a run's agents.
#[derive(Clone, Copy)]
pub(crate) struct AgentsServer<'s> {
    /// Where it is.
    url: &'s str,
    /// The server itself, if this process is it.
    running: Option<&'s RunningServer>,
}

impl<'s> AgentsServer<'s> {
    /// One in this process.
    pub(crate) fn own(running: &'s RunningServer) -> Self {
        Self { url: &running.url, running: Some(running) }
    }

    /// Another process, which keeps judges to graders by its own config.
    pub(crate) fn elsewhere(url: &'s str) -> Self {
        Self { url, running: None }
    }
}

/// Whoever runs the rollouts of a run.
pub(crate) struct Runner {
    /// None if runners are started elsewhere.
    process: Option<RunnerProcess>,
    /// A message here says that nobody is left.
    pub(crate) given_up: watch::Receiver<Option<String>>,
}

impl Runner {
    /// Starts the runner that the config tells of, once what an earlier one held is given back, and once the judges of its
    /// rubric are found to agree with people, if that is asked.
    ///
    /// # Errors
    /// If what an earlier runner held cannot be given back, or if the judges do not agree.
    pub(crate) async fn start(
        loaded: &LoadedConfig,
        server: AgentsServer<'_>,
        admin_key: Option<AdminKey>,
        run_id: &str,
        run_directory: &Path,
        record: &Arc<dyn Record>,
        reporter: &mut dyn Reporter,
    ) -> Result<Self> {
        let AgentsServer { url: server, running } = server;
        let reserve_judges = || running.iter().for_each(|running| running.reserve_judges(&loaded.config));
        if !loaded.config.runner.runs_agents() {
            reserve_judges();
            let url = server.to_owned();
            reporter.report(match loaded.config.trainer.harvest() {
                Some(_) => TrainEvent::AgentsAwaited { url },
                None => TrainEvent::RunnersAwaited { url },
            });
            // Nobody can say that no runner is left: another may come at any time.
            return Ok(Self { process: None, given_up: watch::channel(None).1 });
        }
        served_models::hold_against_labels(loaded, server, admin_key.as_ref(), run_directory, reporter).await?;
        reserve_judges();
        let worker_id = format!("runner-{run_id}");
        record.release_worker(&worker_id).await?;
        let command = RunnerCommand {
            server: server.to_owned(),
            admin_key,
            hidden: loaded.config.server.admin_key_env.clone().into_iter().chain(upload_keys(loaded)).collect(),
            worker_id,
            settings: RunnerSettings::of_run(loaded, run_directory),
        };
        let (process, given_up) = RunnerProcess::start(command, record.clone());
        Ok(Self { process: Some(process), given_up })
    }

    /// Lets it kill its agents and end.
    pub(crate) async fn stop(self) {
        if let Some(process) = self.process {
            process.stop().await;
        }
    }
}

/// Timeouts and retries of a rollout.
pub(crate) fn rollout_config(loaded: &LoadedConfig) -> RolloutConfig {
    let runner = &loaded.config.runner;
    RolloutConfig {
        // The runner keeps the agent's time; this is for a runner that does not.
        timeout_seconds: Some(runner.whole_seconds() + 30.0),
        // Our runner says every few seconds that its attempts live; others may say nothing until an agent calls.
        unresponsive_seconds: runner.runs_agents().then_some(60.0),
        ..tried_again(runner.max_attempts)
    }
}
