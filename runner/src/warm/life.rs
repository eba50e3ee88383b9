//! One process of a warm agent, from its start to its end.

use super::lines::{Line, next_line};
use super::messages::LONGEST_LINE;
use crate::launch::launcher::{Launcher, Process, Started, Stdin};
use crate::launch::run::{KEPT_ERRORS, PIPE_GRACE, Tail};
use crate::order::Order;
use crate::process::end::ProcessError;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// How long a process that reads no more may take to end by itself.
const DEAF_GRACE: Duration = Duration::from_secs(1);

/// Which process of the agent's.
pub(super) type LifeId = u64;

/// What comes out of a process.
#[derive(Debug)]
pub(super) enum LifeEvent {
    /// A line of its standard output.
    Line(Line),
    /// It is gone, with everything that it had started.
    Ended(Result<ExitStatus, ProcessError>),
}

/// The end of what a process wrote beside its answers.
#[derive(Debug, Clone)]
pub(super) struct AgentLog(Arc<Mutex<Tail>>);

impl AgentLog {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Tail::new(KEPT_ERRORS))))
    }

    /// Adds to it.
    pub(super) fn push(&self, more: &[u8]) {
        self.lock().push(more);
    }

    /// What is kept.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.lock().clone().into_bytes()).into_owned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Tail> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a process that runs can be given, by whoever started it.
#[derive(Debug)]
pub(super) struct Reins {
    /// Lines for its standard input, which is closed when this is dropped.
    pub stdin: mpsc::UnboundedSender<Vec<u8>>,
    /// Kills it.
    pub kill: oneshot::Sender<()>,
    /// What it wrote beside its answers.
    pub log: AgentLog,
}

/// What a process can be given, and its life: the future starts it, runs it to its end and tells what comes out of it; dropped,
/// it kills the process.
pub(super) fn prepare(
    id: LifeId,
    launcher: Launcher,
    order: Order,
    events: mpsc::Sender<(LifeId, LifeEvent)>,
) -> (Reins, impl Future<Output = ()>) {
    let ((stdin, lines), (kill, killed)) = (mpsc::unbounded_channel(), oneshot::channel());
    let log = AgentLog::new();
    let reins = Reins { stdin, kill, log: log.clone() };
    let life = async move {
        let ended = match launcher.start(&order, Stdin::Piped).await {
            Ok(started) => live(id, started, lines, killed, log, &events).await,
            Err(error) => Err(error),
        };
        // Nobody listens any more when the runner has gone.
        let _ = events.send((id, LifeEvent::Ended(ended))).await;
    };
    (reins, life)
}

async fn live(
    id: LifeId,
    started: Started,
    lines: mpsc::UnboundedReceiver<Vec<u8>>,
    killed: oneshot::Receiver<()>,
    log: AgentLog,
    events: &mpsc::Sender<(LifeId, LifeEvent)>,
) -> Result<ExitStatus, ProcessError> {
    let Started { stdin, stdout, stderr, mut process } = started;
    let ended = Notify::new();
    let wait = async {
        let status = end(&mut process, stdin, lines, killed).await;
        ended.notify_one();
        status
    };
    let listen = async {
        let pipes = async { tokio::join!(read_answers(id, stdout, events), read_errors(stderr, &log)) };
        let too_long = async {
            ended.notified().await;
            sleep(PIPE_GRACE).await;
        };
        tokio::select! {
            _ = pipes => {}
            () = too_long => {}
        }
    };
    tokio::join!(wait, listen).0
}

/// Feeds the process until it has ended, and ends one that is to be killed or reads no more.
async fn end(
    process: &mut Process,
    stdin: Option<Sender>,
    lines: mpsc::UnboundedReceiver<Vec<u8>>,
    killed: oneshot::Receiver<()>,
) -> Result<ExitStatus, ProcessError> {
    let status = tokio::select! {
        status = process.wait() => Some(status),
        Ok(()) = killed => None,
        () = feed(stdin, lines) => timeout(DEAF_GRACE, process.wait()).await.ok(),
    };
    match status {
        Some(status) => status,
        None => process.kill().await,
    }
}

/// Writes lines to the process until it reads no more. Closes its standard input after the last.
async fn feed(pipe: Option<Sender>, mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    let Some(mut pipe) = pipe else { return };
    while let Some(line) = lines.recv().await {
        if let Err(error) = pipe.write_all(&line).await {
            tracing::debug!(%error, "the agent's process reads no more");
            return;
        }
    }
    drop(pipe);
    std::future::pending().await
}

/// Reads answers until the process can write no more; an error is an end as well.
async fn read_answers(id: LifeId, pipe: Receiver, events: &mpsc::Sender<(LifeId, LifeEvent)>) {
    let mut pipe = BufReader::new(pipe);
    while let Ok(Some(line)) = next_line(&mut pipe, LONGEST_LINE).await {
        if events.send((id, LifeEvent::Line(line))).await.is_err() {
            return;
        }
    }
}

async fn read_errors(mut pipe: Receiver, log: &AgentLog) {
    let mut chunk = [0; 8 << 10];
    while let Ok(read @ 1..) = pipe.read(&mut chunk).await {
        log.push(&chunk[..read]);
    }
}
