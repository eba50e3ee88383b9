//! A warm agent: one process that is given tasks as lines and answers with lines, many at once and in any order.
//!
//! [`WarmAgent`] is its attempts' view. The lines are in `messages`, one process is a `life`, and the `keeper` gives it
//! attempts and replaces it.

mod failures;
mod keeper;
mod life;
mod lines;
mod messages;

pub(crate) use failures::{CrashLoop, Lost, NoAnswer};
pub(crate) use messages::{Answer, read_answer, task_line};

use crate::launch::launcher::Launcher;
use crate::order::Order;
use fulgurite_client::Assignment;
use keeper::{Job, Keeper, Request};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// A warm agent. Dropped, it kills its processes.
#[derive(Debug)]
pub(crate) struct WarmAgent {
    requests: mpsc::UnboundedSender<Request>,
    given_up: watch::Receiver<Option<CrashLoop>>,
    keeper: JoinHandle<()>,
}

impl WarmAgent {
    /// An agent whose processes are started by `order`, the first with the first attempt.
    pub(crate) fn new(launcher: Launcher, order: Order) -> Self {
        let (requests, received) = mpsc::unbounded_channel();
        let (giving_up, given_up) = watch::channel(None);
        #[expect(clippy::disallowed_methods, reason = "who is returned holds it")]
        let keeper = tokio::spawn(Keeper::keep(launcher, order, requests.downgrade(), received, giving_up));
        Self { requests, given_up, keeper }
    }

    /// Has an attempt done, of which `line` tells. At the deadline, and when the future is dropped, the agent is asked to stop.
    pub(crate) async fn ask(
        &self,
        assignment: &Assignment,
        line: Vec<u8>,
        deadline: Instant,
    ) -> Result<Answer, NoAnswer> {
        let (reply, answered) = oneshot::channel();
        let Assignment { rollout_id, attempt_id, key, .. } = assignment.clone();
        let _cancel = CancelWhenDropped { agent: self, assignment };
        // Without a keeper the reply's sender is dropped with the request.
        let _ = self.requests.send(Request::Do(Job { rollout_id, attempt_id, line, key, reply }));
        match timeout_at(deadline, answered).await {
            Ok(Ok(answer)) => answer.map_err(NoAnswer::Lost),
            Ok(Err(_)) => Err(NoAnswer::Lost(Lost { reason: "was closed".to_owned(), log: String::new() })),
            Err(_) => Err(NoAnswer::TimedOut { log: self.log_of(assignment).await }),
        }
    }

    /// The end of what the process wrote that works at an attempt.
    async fn log_of(&self, assignment: &Assignment) -> String {
        let (reply, log) = oneshot::channel();
        let Assignment { rollout_id, attempt_id, .. } = assignment.clone();
        // Without a keeper there is no process.
        let _ = self.requests.send(Request::Log { rollout_id, attempt_id, reply });
        log.await.unwrap_or_default()
    }

    /// Waits until the agent is given up because its processes keep dying.
    pub(crate) async fn given_up(&self) -> CrashLoop {
        let mut given_up = self.given_up.clone();
        let crash_loop = given_up.wait_for(Option::is_some).await.ok().and_then(|given_up| given_up.clone());
        match crash_loop {
            Some(crash_loop) => crash_loop,
            None => std::future::pending().await,
        }
    }

    /// Closes the standard input of the agent's processes, waits for them to leave, and kills those that stay.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if self.requests.send(Request::Close(done)).is_ok() {
            // An error is a keeper that is gone, and its processes with it.
            let _ = closed.await;
        }
    }
}

impl Drop for WarmAgent {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

/// Asks the agent to stop when an attempt's future is dropped. Of one that was answered this is no news.
struct CancelWhenDropped<'a> {
    agent: &'a WarmAgent,
    assignment: &'a Assignment,
}

impl Drop for CancelWhenDropped<'_> {
    fn drop(&mut self) {
        let Assignment { rollout_id, attempt_id, .. } = self.assignment.clone();
        // Without a keeper there is nothing to stop.
        let _ = self.agent.requests.send(Request::Cancel { rollout_id, attempt_id });
    }
}
