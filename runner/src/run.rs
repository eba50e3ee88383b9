//! The runner's loop: dequeue as many as there is room for, run them, tally how they end.

use fulgurite_types::AttemptStatus;

use crate::attempt::{Ending, Workspace};
use crate::{RunnerError, RunnerOptions};
use fulgurite_client::{Dequeued, Server};
use serde::Serialize;
use std::future::Future;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;

/// How long the server is asked to wait for a rollout when the queue is empty.
const QUEUE_WAIT: Duration = Duration::from_secs(20);

/// How often a runner that is to leave when idle looks at the queue while its last agents run.
const IDLE_POLL: Duration = Duration::from_secs(1);

/// How the attempts of a runner ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RunnerSummary {
    /// Ended with a reward.
    pub succeeded: usize,
    /// Ended without one; the server was told why.
    pub failed: usize,
    /// Were killed because they took too long.
    pub timed_out: usize,
    /// Count for nothing: the server had given them up before they ended, or refused to hear how. Those that still ran when
    /// the server said so were killed.
    pub unreported: usize,
    /// Were running when the runner was told to stop: killed, and given back to the server, which queues their rollouts again
    /// if they may be tried again.
    pub released: usize,
}

/// Runs agents until `shutdown` resolves or, with [`RunnerOptions::until_idle`], until there is nothing more to do. On
/// shutdown the agents that still run are killed, with everything they have started, and their attempts are given back to the
/// server, which queues their rollouts again if they may be tried again.
///
/// # Errors
///
/// Fails before the first agent if the options cannot work, and later if the server stays out of reach for longer than the
/// runner's patience or refuses to hand out rollouts. All agents have been killed by then.
pub async fn run(options: RunnerOptions, shutdown: impl Future<Output = ()>) -> Result<RunnerSummary, RunnerError> {
    if options.parallel == 0 {
        return Err(RunnerError::NoParallelism);
    }
    let server = Server::new(options.server_options())?;
    let workspace = Arc::new(Workspace::new(&options, server.clone())?);
    let mut workers =
        Workers { workspace: Arc::clone(&workspace), attempts: JoinSet::new(), summary: RunnerSummary::default() };

    let worked = tokio::select! {
        biased;
        () = shutdown => Ok(()),
        worked = work(&server, &options, &mut workers) => worked,
        lost = workspace.keep_alive() => Err(lost),
        given_up = workspace.agent_given_up() => Err(given_up),
    };
    workers.dismiss().await;
    workspace.close().await;
    // One try only: whoever stops a runner does not wait for a server that may be gone as well.
    if let Err(error) = server.release_worker_once(&options.worker_id).await {
        tracing::warn!(%error, worker_id = options.worker_id, "could not give this runner's attempts back");
    }
    worked.map(|()| workers.summary)
}

/// Dequeues and runs until there is nothing more to do.
async fn work(server: &Server, options: &RunnerOptions, workers: &mut Workers) -> Result<(), RunnerError> {
    workers.workspace.reap().await?;
    // A predecessor of the same name may have died with attempts in hand.
    server.release_worker(&options.worker_id).await?;
    let grader = workers.workspace.grader_name();
    let mut reply_lost = false;
    loop {
        workers.tally_ended()?;
        if workers.size() == options.parallel {
            workers.tally_next().await?;
            continue;
        }
        if reply_lost && workers.size() == 0 {
            // What the server holds to be running here was in the reply that never came.
            server.release_worker(&options.worker_id).await?;
            reply_lost = false;
        }
        let wait = if options.until_idle { Duration::ZERO } else { QUEUE_WAIT };
        let dequeued: Dequeued =
            server.dequeue(&options.worker_id, options.parallel - workers.size(), wait, grader.as_deref()).await?;
        reply_lost |= dequeued.reply_lost;
        let idle = dequeued.assignments.is_empty();
        for assignment in dequeued.assignments {
            let workspace = Arc::clone(&workers.workspace);
            workers.attempts.spawn(async move { workspace.run(&assignment).await });
        }
        if options.until_idle && idle {
            if workers.size() == 0 && !reply_lost {
                return Ok(());
            }
            tokio::select! {
                tallied = workers.tally_next() => tallied?,
                () = sleep(IDLE_POLL) => {}
            }
        }
    }
}

/// The attempts that run now, and how the others ended.
struct Workers {
    workspace: Arc<Workspace>,
    attempts: JoinSet<Result<Ending, RunnerError>>,
    summary: RunnerSummary,
}

impl Workers {
    fn size(&self) -> usize {
        self.attempts.len()
    }

    /// Tallies every attempt that has ended by now.
    fn tally_ended(&mut self) -> Result<(), RunnerError> {
        while let Some(joined) = self.attempts.try_join_next() {
            self.tally(joined)?;
        }
        Ok(())
    }

    /// Waits for an attempt to end, if any runs, and tallies it.
    async fn tally_next(&mut self) -> Result<(), RunnerError> {
        match self.attempts.join_next().await {
            Some(joined) => self.tally(joined),
            None => Ok(()),
        }
    }

    fn tally(&mut self, joined: Result<Result<Ending, RunnerError>, JoinError>) -> Result<(), RunnerError> {
        let summary = &mut self.summary;
        let counter = match joined {
            Ok(ended) => match ended? {
                Ending::Reported(AttemptStatus::Succeeded) => &mut summary.succeeded,
                Ending::Reported(AttemptStatus::Timeout) => &mut summary.timed_out,
                Ending::Reported(_) => &mut summary.failed,
                Ending::Unreported => &mut summary.unreported,
            },
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_cancelled) => &mut summary.released,
        };
        *counter += 1;
        Ok(())
    }

    /// Kills what still runs and waits until it is dead.
    async fn dismiss(&mut self) {
        self.attempts.abort_all();
        while let Some(joined) = self.attempts.join_next().await {
            if let Err(error) = self.tally(joined) {
                tracing::warn!(%error, "an attempt ended with an error while the runner stopped");
            }
        }
    }
}
