//! The runner of a training run: a child process that is started again when it dies.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fulgurite_config::admin_key;
use fulgurite_store::AdminKey;
use fulgurite_trainer::Record;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::settings::RunnerSettings;

/// A runner that lived shorter than this was not worth starting.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// So many short lives in a row, and it is given up.
const SHORT_LIVES: u32 = 5;

/// How long a runner that is told to leave may take, beside the time for taking its worlds away.
const PATIENCE: Duration = Duration::from_secs(10);

/// How the runner of a run is started.
#[derive(Clone, Debug)]
pub(super) struct RunnerCommand {
    /// The server's URL.
    pub server: String,
    /// What it needs there, if anything.
    pub admin_key: Option<AdminKey>,
    /// Variables that agents must not inherit: where the server's own key came from, and keys to what is uploaded.
    pub hidden: Vec<String>,
    /// Its name in the store, the same after each start.
    pub worker_id: String,
    /// What it runs, and where.
    pub settings: RunnerSettings,
}

impl RunnerCommand {
    fn spawn(&self) -> Result<Child> {
        let program = std::env::current_exe().context("this program's own file is gone")?;
        let mut command = Command::new(program);
        command.args(["run", "--server", &self.server, "--worker-id", &self.worker_id]);
        // Its standard input closes when this process dies, however it dies.
        command.args(["--settings", &json!(self.settings).to_string(), "--until-stdin-closes"]);
        for variable in &self.hidden {
            command.env_remove(variable);
        }
        if let Some(key) = &self.admin_key {
            // The runner keeps this variable from its agents.
            command.env(admin_key::VARIABLE, key.expose());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
        command.spawn().context("cannot start the runner")
    }
}

/// A runner that is kept alive.
pub(super) struct RunnerProcess {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl RunnerProcess {
    /// Starts it. The receiver gets a message once it is given up.
    pub(super) fn start(command: RunnerCommand, record: Arc<dyn Record>) -> (Self, watch::Receiver<Option<String>>) {
        let (given_up, receiver) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        #[expect(clippy::disallowed_methods, reason = "who is returned holds it")]
        let task = tokio::spawn(async move {
            if let Some(error) = supervise(&command, record.as_ref(), stopped).await {
                // Nobody listens any more when the run is over.
                let _ = given_up.send(Some(format!("{error:#}")));
            }
        });
        (Self { stop, task }, receiver)
    }

    /// Lets it kill its agents and leave.
    pub(super) async fn stop(self) {
        // Given up already, it is not there to be told.
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "the runner's supervisor broke");
        }
    }
}

/// Ends when it is told to, without an error, or when the runner is given up.
async fn supervise(
    command: &RunnerCommand,
    record: &dyn Record,
    mut stopped: oneshot::Receiver<()>,
) -> Option<anyhow::Error> {
    let mut short_lives = 0;
    loop {
        let started = Instant::now();
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return Some(error),
        };
        // Waiting for a child closes its standard input, which would tell the runner to leave.
        let stdin = child.stdin.take();
        let status = tokio::select! {
            status = child.wait() => status,
            _ = &mut stopped => {
                drop(stdin);
                return wait_for_end(child, command.settings.patience_with_worlds()).await;
            }
        };
        let status = match status.context("cannot wait for the runner") {
            Ok(status) => status,
            Err(error) => return Some(error),
        };
        tracing::warn!(%status, "the runner died; its attempts are tried again");
        let released = tokio::select! {
            released = record.release_worker(&command.worker_id) => released,
            _ = &mut stopped => return None,
        };
        if let Err(error) = released {
            return Some(anyhow::Error::new(error).context("cannot take back what the dead runner held"));
        }
        short_lives = if started.elapsed() < SHORT_LIFE { short_lives + 1 } else { 0 };
        if short_lives >= SHORT_LIVES {
            let message = format!("it died {SHORT_LIVES} times in a row soon after its start, last with {status}");
            return Some(anyhow::anyhow!(message));
        }
    }
}

/// Waits for a runner that was told to leave; one that does not is killed.
async fn wait_for_end(mut child: Child, for_worlds: Duration) -> Option<anyhow::Error> {
    let left = tokio::time::timeout(PATIENCE + for_worlds, child.wait()).await;
    if left.is_err() {
        tracing::warn!("the runner did not leave and is killed");
    }
    None
}
