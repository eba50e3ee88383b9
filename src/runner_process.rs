//! The runner of a training run: a child process that is started again when it dies.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use fulgurite_store::Store;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::RunnerConfig;

/// A runner that lived shorter than this was not worth starting.
const SHORT_LIFE: Duration = Duration::from_secs(5);
/// So many short lives in a row, and it is given up.
const SHORT_LIVES: u32 = 5;

/// How the runner of a run is started.
#[derive(Clone, Debug)]
pub struct RunnerCommand {
    /// The server's URL.
    pub server: String,
    /// Its name in the store, the same after each start.
    pub worker_id: String,
    /// What it runs.
    pub config: RunnerConfig,
    /// Directory that agents are started in.
    pub directory: PathBuf,
}

impl RunnerCommand {
    fn spawn(&self) -> Result<Child> {
        let program = std::env::current_exe().context("this program's own file is gone")?;
        let mut command = Command::new(program);
        command.args(["run", "--server", &self.server, "--worker-id", &self.worker_id]);
        command.args(["--parallel", &self.config.parallel.to_string()]);
        command.args(["--timeout", &self.config.timeout_seconds.to_string()]);
        command.arg("--directory").arg(&self.directory);
        for word in &self.config.grade {
            command.arg(format!("--grade-word={word}"));
        }
        // Its standard input closes when this process dies, however it dies.
        command.args(["--until-stdin-closes", "--"]).args(&self.config.command);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
        command.spawn().context("cannot start the runner")
    }
}

/// Keeps a runner alive. The receiver gets a message once it is given up.
pub fn keep_alive(command: RunnerCommand, store: Store) -> (JoinHandle<()>, watch::Receiver<Option<String>>) {
    let (given_up, receiver) = watch::channel(None);
    let task = tokio::spawn(async move {
        let error = supervise(&command, &store).await;
        // Nobody listens any more when the run is over.
        let _ = given_up.send(Some(format!("{error:#}")));
    });
    (task, receiver)
}

/// Ends only when the runner is given up.
async fn supervise(command: &RunnerCommand, store: &Store) -> anyhow::Error {
    let mut short_lives = 0;
    loop {
        let started = Instant::now();
        let end = match command.spawn() {
            Ok(mut child) => {
                // Waiting for a child closes its standard input, which would tell the runner to leave.
                let _open = child.stdin.take();
                child.wait().await.context("cannot wait for the runner")
            }
            Err(error) => Err(error),
        };
        let status = match end {
            Ok(status) => status,
            Err(error) => return error,
        };
        tracing::warn!(%status, "the runner died; its attempts are tried again");
        if let Err(error) = store.release_worker(&command.worker_id).await {
            return anyhow::Error::new(error).context("cannot take back what the dead runner held");
        }
        short_lives = if started.elapsed() < SHORT_LIFE { short_lives + 1 } else { 0 };
        if short_lives >= SHORT_LIVES {
            return anyhow::anyhow!("it died {SHORT_LIVES} times in a row soon after its start, last with {status}");
        }
    }
}
