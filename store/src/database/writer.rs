//! The one task that writes. Jobs that wait at the same time share a transaction; each is answered after its commit.

mod checkpoints;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fulgurite_types::{Attempt, Rollout};
use futures::future::BoxFuture;
use sqlx::{AnyConnection, Connection};
use tokio::sync::{mpsc, oneshot};

use self::checkpoints::Checkpoints;
use crate::database::dialect::Dialect;
use crate::database::listener::CHANNEL;
use crate::database::location::Connector;
use crate::database::patience::Patience;
use crate::database::rollout_cache::{Change, RolloutCache};
use crate::database::signals::{Effects, Signals};
use crate::database::sql::column;
use crate::database::telemetry::WriterMetrics;
use crate::{Result, StoreError};

/// Maximum number of waiting jobs; a caller with another job waits until there is room.
const QUEUE_LENGTH: usize = 1024;
/// Jobs that share a transaction at most, so that the first is not kept waiting by a stream of others.
const BATCH_LENGTH: usize = 256;

/// What a job works with.
pub(crate) struct Write {
    connection: AnyConnection,
    effects: Effects,
}

impl Write {
    /// The connection, inside the transaction.
    pub(crate) fn connection(&mut self) -> &mut AnyConnection {
        &mut self.connection
    }

    /// After the commit, a task that waits for work is woken.
    pub(crate) fn rollout_was_queued(&mut self) {
        self.effects.queued += 1;
    }

    /// After the commit, tasks that wait for rollouts to finish are woken.
    pub(crate) fn rollout_finished(&mut self) {
        self.effects.finished = true;
    }

    /// After the commit, servers look at which weights are published.
    pub(crate) fn weights_were_published(&mut self) {
        self.effects.published = true;
    }

    /// After the commit, caches of the attempt are notified.
    pub(crate) fn attempt_ended(&mut self, attempt: &Attempt) {
        self.effects.ended.push((attempt.rollout_id.clone(), attempt.attempt_id.clone()));
    }

    /// After the commit, the rollout is known to have this attempt as its latest.
    pub(crate) fn attempt_started(&mut self, rollout: &mut Rollout, attempt: &Attempt) {
        // It may be large, and model calls do not use it.
        let input = rollout.input.take();
        self.effects.rollouts.push(Change::Started(Arc::new((rollout.clone(), Some(attempt.clone())))));
        rollout.input = input;
    }

    /// After the commit, the attempt's activity is noted in the cache.
    pub(crate) fn attempt_was_active(&mut self, rollout_id: &str, attempt_id: &str) {
        self.effects.rollouts.push(Change::Active(rollout_id.to_owned(), attempt_id.to_owned()));
    }

    /// After the commit, what was known of the rollout and its attempts is known no more.
    pub(crate) fn rollout_changed(&mut self, rollout_id: &str) {
        self.effects.rollouts.push(Change::Other(rollout_id.to_owned()));
    }

    async fn execute(&mut self, sql: &'static str) -> Result<()> {
        sqlx::raw_sql(sql).execute(self.connection()).await?;
        Ok(())
    }
}

trait Job<J>: Send {
    /// Does the work and keeps its result; whether it shall be committed.
    fn run<'c>(&'c mut self, write: &'c mut Write) -> BoxFuture<'c, bool>;
    /// Tells the caller how it went, given how the transaction went.
    fn answer(self: Box<Self>, transaction: Result<()>);
    /// The write that may be joined with others, if that is all it does.
    fn joinable(&self) -> Option<&J> {
        None
    }
    /// That has been written together with others.
    fn was_written(&mut self) {}
}

struct CallerJob<T, F> {
    /// `None` once it is done and need not be done again.
    work: Option<F>,
    result: Result<T>,
    caller: oneshot::Sender<Result<T>>,
    only_if_awaited: bool,
}

impl<T, F> CallerJob<T, F> {
    fn is_unwanted(&self) -> bool {
        self.only_if_awaited && self.caller.is_closed()
    }
}

impl<J, T, F> Job<J> for CallerJob<T, F>
where
    T: Send,
    F: for<'c> FnOnce(&'c mut Write) -> BoxFuture<'c, Result<T>> + Clone + Send,
{
    fn run<'c>(&'c mut self, write: &'c mut Write) -> BoxFuture<'c, bool> {
        Box::pin(async move {
            if self.is_unwanted() {
                return false;
            }
            // What is lost with a server is done again.
            let work = match Dialect::of(write.connection()) {
                Dialect::Sqlite => self.work.take(),
                Dialect::Postgres => self.work.clone(),
            };
            if let Some(work) = work {
                self.result = work(write).await;
            }
            self.result.is_ok() && !self.is_unwanted()
        })
    }

    fn answer(self: Box<Self>, transaction: Result<()>) {
        // The caller may have been dropped; what was committed stays.
        let _ = self.caller.send(transaction.and(self.result));
    }
}

/// A write of which several that wait together may be one statement, with no transaction around it.
pub(crate) trait Joinable: Send + Sync + Sized + 'static {
    /// How many of them one statement takes, at most.
    const TOGETHER: usize;

    /// Writes them all in one statement, which is a transaction by itself. `false`, with nothing changed, if that is not
    /// possible.
    fn write_at_once<'c>(connection: &'c mut AnyConnection, writes: &'c [&'c Self]) -> BoxFuture<'c, Result<bool>>;

    /// Writes it by itself, within a transaction.
    fn write_alone<'c>(&'c self, write: &'c mut Write) -> BoxFuture<'c, Result<()>>;

    /// What follows from its having been written at once.
    fn effects(&self) -> Effects;
}

/// A write that may be joined with others of its kind.
struct JoinableJob<J> {
    write: J,
    result: Result<()>,
    caller: oneshot::Sender<Result<()>>,
}

impl<J: Joinable> JoinableJob<J> {
    async fn write(&self, write: &mut Write) -> Result<()> {
        if Dialect::of(write.connection()) == Dialect::Sqlite
            && J::write_at_once(write.connection(), &[&self.write]).await?
        {
            write.effects.append(self.write.effects());
            return Ok(());
        }
        self.write.write_alone(write).await
    }
}

impl<J: Joinable> Job<J> for JoinableJob<J> {
    fn run<'c>(&'c mut self, write: &'c mut Write) -> BoxFuture<'c, bool> {
        Box::pin(async move {
            self.result = self.write(write).await;
            self.result.is_ok()
        })
    }

    fn answer(self: Box<Self>, transaction: Result<()>) {
        // What was committed stays, whether or not the caller still waits for the result.
        let _ = self.caller.send(transaction.and(self.result));
    }

    fn joinable(&self) -> Option<&J> {
        Some(&self.write)
    }

    fn was_written(&mut self) {
        self.result = Ok(());
    }
}

enum Message<J> {
    Work(Box<dyn Job<J>>),
    Close(oneshot::Sender<()>),
}

/// The handle to the writing task. The task ends when every handle is dropped, or when it is closed.
pub(crate) struct Writer<J> {
    messages: mpsc::Sender<Message<J>>,
    commits: Arc<AtomicU64>,
}

impl<J: Joinable> Writer<J> {
    /// Starts the task, which uses one connection at a time; `connection` is the first.
    pub(crate) fn start(
        connector: Connector,
        connection: AnyConnection,
        patience: Duration,
        signals: Arc<Signals>,
        under_way: Arc<RolloutCache>,
    ) -> Self {
        let (messages, receiver) = mpsc::channel(QUEUE_LENGTH);
        let commits = Arc::new(AtomicU64::new(0));
        let is_sqlite = Dialect::of(&connection) == Dialect::Sqlite;
        let task = Task {
            checkpoints: is_sqlite.then(|| Checkpoints::start(connector.clone())),
            connector,
            connection: Some(connection),
            // A file does not go away.
            patience: if is_sqlite { Duration::ZERO } else { patience },
            signals,
            under_way,
            commits: Arc::clone(&commits),
            receiver,
            metrics: WriterMetrics::new(),
        };
        #[expect(clippy::disallowed_methods, reason = "it ends when nobody has anything to write any more")]
        tokio::spawn(task.run());
        Self { messages, commits }
    }

    /// Runs `work` in a transaction and gives its result once that has been committed. A caller that goes away does
    /// not stop the work.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Write) -> BoxFuture<'c, Result<T>> + Clone + Send + 'static,
    {
        self.submit(work, false).await
    }

    /// As [`Writer::write`], for work that must not be done for a caller who has gone away.
    pub(crate) async fn write_if_awaited<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Write) -> BoxFuture<'c, Result<T>> + Clone + Send + 'static,
    {
        self.submit(work, true).await
    }

    async fn submit<T, F>(&self, work: F, only_if_awaited: bool) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Write) -> BoxFuture<'c, Result<T>> + Clone + Send + 'static,
    {
        let (caller, answer) = oneshot::channel();
        let job = CallerJob { work: Some(work), result: Err(StoreError::Closed), caller, only_if_awaited };
        self.send(Box::new(job), answer).await
    }

    /// Writes what may be joined with others of its kind, as [`Writer::write`] does its work.
    pub(crate) async fn join(&self, write: J) -> Result<()> {
        let (caller, answer) = oneshot::channel();
        self.send(Box::new(JoinableJob { write, result: Err(StoreError::Closed), caller }), answer).await
    }

    async fn send<T>(&self, job: Box<dyn Job<J>>, answer: oneshot::Receiver<Result<T>>) -> Result<T> {
        self.messages.send(Message::Work(job)).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Transactions committed so far.
    pub(crate) fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Finishes what waits, then ends the task.
    pub(crate) async fn close(&self) {
        let (closed, answer) = oneshot::channel();
        if self.messages.send(Message::Close(closed)).await.is_ok() {
            // An error means that the task has ended meanwhile, which is what was wanted.
            let _ = answer.await;
        }
    }
}

struct Task<J> {
    connector: Connector,
    /// `None` once it is not known in what state it is.
    connection: Option<AnyConnection>,
    /// How long a server may be away.
    patience: Duration,
    signals: Arc<Signals>,
    under_way: Arc<RolloutCache>,
    commits: Arc<AtomicU64>,
    /// On SQLite.
    checkpoints: Option<Checkpoints>,
    receiver: mpsc::Receiver<Message<J>>,
    metrics: WriterMetrics,
}

impl<J: Joinable> Task<J> {
    async fn run(mut self) {
        let mut closers = Vec::new();
        let mut messages = Vec::with_capacity(BATCH_LENGTH);
        let mut shared = false;
        while self.receiver.recv_many(&mut messages, BATCH_LENGTH).await > 0 {
            // Where writes come close together, tasks that are ready to run are given the chance to add one. The fewer
            // commits there are, the less each write costs; a single write does not wait.
            if shared {
                tokio::task::yield_now().await;
                while messages.len() < BATCH_LENGTH
                    && let Ok(message) = self.receiver.try_recv()
                {
                    messages.push(message);
                }
            }
            shared = messages.len() > 1;
            let mut jobs = Vec::with_capacity(messages.len());
            for message in messages.drain(..) {
                match message {
                    Message::Work(job) => jobs.push(job),
                    Message::Close(closed) => {
                        // What has been sent is still received; then `recv_many` gives 0.
                        self.receiver.close();
                        closers.push(closed);
                    }
                }
            }
            // What is one statement needs no transaction around it, and takes no more than it can.
            let together = if jobs.iter().all(|job| job.joinable().is_some()) { J::TOGETHER } else { BATCH_LENGTH };
            while !jobs.is_empty() {
                let later = jobs.split_off(together.min(jobs.len()));
                self.write_together(jobs, !later.is_empty()).await;
                jobs = later;
            }
        }
        if let Some(checkpoints) = self.checkpoints {
            checkpoints.close().await;
        }
        if let Some(connection) = self.connection
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the database did not close");
        }
        for closed in closers {
            let _ = closed.send(());
        }
    }

    async fn write_together(&mut self, mut jobs: Vec<Box<dyn Job<J>>>, others_wait: bool) {
        let began = Instant::now();
        let mut outcome = self.transaction(&mut jobs).await;
        self.metrics.transaction.record(began.elapsed());
        self.metrics.writes.record(jobs.len() as f64);
        match &mut outcome {
            Ok(effects) => {
                self.commits.fetch_add(1, Ordering::Relaxed);
                if let Some(checkpoints) = &mut self.checkpoints {
                    checkpoints.committed(others_wait || !self.receiver.is_empty());
                }
                self.under_way.apply(std::mem::take(&mut effects.rollouts));
                self.signals.raise(effects);
            }
            Err(error) => {
                self.metrics.lost.increment(1);
                tracing::error!(%error, jobs = jobs.len(), "a transaction was lost");
            }
        }
        for job in jobs {
            job.answer(outcome.as_ref().map(|_| ()).map_err(StoreError::clone));
        }
    }

    /// Runs jobs in a transaction. One that is lost with its server is run again once that is back; whether one that was
    /// lost while it was being committed has been committed, the server knows.
    async fn transaction(&mut self, jobs: &mut [Box<dyn Job<J>>]) -> Result<Effects> {
        let mut patience = Patience::new(self.patience);
        loop {
            let lost = match self.transaction_once(jobs).await {
                Ok(effects) => return Ok(effects),
                Err(lost) => lost,
            };
            patience.wait(lost.error, &self.signals).await?;
            if let Some((id, effects)) = lost.committing
                && self.was_committed(id, &mut patience).await?
            {
                return Ok(effects);
            }
        }
    }

    async fn transaction_once(&mut self, jobs: &mut [Box<dyn Job<J>>]) -> std::result::Result<Effects, Lost> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.connector.connect().await?,
        };
        let mut write = Write { connection, effects: Effects::default() };
        if let Some(effects) = write_joined(&mut write, jobs, &self.metrics).await? {
            self.connection = Some(write.connection);
            return Ok(effects);
        }
        let outcome = run_jobs(&mut write, jobs, &self.signals, &self.metrics).await;
        // A connection that cannot be taken back to a known state is not used again.
        if outcome.is_ok() || write.execute("ROLLBACK").await.is_ok() {
            self.connection = Some(write.connection);
        }
        outcome
    }

    /// Whether a transaction has been committed, of which only the server knows.
    async fn was_committed(&mut self, id: i64, patience: &mut Patience) -> Result<bool> {
        loop {
            match self.fate_of(id).await {
                Ok(Fate::Committed) => return Ok(true),
                Ok(Fate::Aborted) => return Ok(false),
                Ok(Fate::UnderWay) => {
                    let message = "it has not said whether it committed a transaction".to_owned();
                    patience.wait(StoreError::Unavailable { message }, &self.signals).await?;
                }
                Err(error) => {
                    self.connection = None;
                    patience.wait(error, &self.signals).await?;
                }
            }
        }
    }

    async fn fate_of(&mut self, id: i64) -> Result<Fate> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.connector.connect().await?),
        };
        let row = sqlx::query("SELECT txid_status($1) AS fate").bind(id).fetch_one(connection).await?;
        Ok(match column::<Option<&str>>(&row, "fate")? {
            Some("committed") => Fate::Committed,
            Some("aborted") => Fate::Aborted,
            _ => Fate::UnderWay,
        })
    }
}

/// What became of a transaction.
enum Fate {
    Committed,
    Aborted,
    UnderWay,
}

/// A transaction that was lost.
struct Lost {
    error: StoreError,
    /// Its id and its effects, if it may have been committed all the same.
    committing: Option<(i64, Effects)>,
}

impl<E: Into<StoreError>> From<E> for Lost {
    fn from(error: E) -> Self {
        Self { error: error.into(), committing: None }
    }
}

/// Writes jobs as one statement, where there is nothing else to do and that is possible. An error leaves the
/// connection in an unknown state.
async fn write_joined<J: Joinable>(
    write: &mut Write,
    jobs: &mut [Box<dyn Job<J>>],
    metrics: &WriterMetrics,
) -> Result<Option<Effects>> {
    let Some(writes) = jobs.iter().map(|job| job.joinable()).collect::<Option<Vec<_>>>() else { return Ok(None) };
    if Dialect::of(&write.connection) != Dialect::Sqlite {
        return Ok(None);
    }
    let began = Instant::now();
    if !J::write_at_once(write.connection(), &writes).await? {
        return Ok(None);
    }
    metrics.commit.record(began.elapsed());
    let mut effects = Effects::default();
    writes.iter().for_each(|write| effects.append(write.effects()));
    jobs.iter_mut().for_each(|job| job.was_written());
    Ok(Some(effects))
}

/// Runs jobs in one transaction so that the failure of one undoes its own work only: the first goes back to where the
/// transaction began, each other one to a savepoint. An error means that the whole transaction is lost.
async fn run_jobs<J: Joinable>(
    write: &mut Write,
    jobs: &mut [Box<dyn Job<J>>],
    signals: &Signals,
    metrics: &WriterMetrics,
) -> std::result::Result<Effects, Lost> {
    let dialect = Dialect::of(&write.connection);
    let mut id = begin(write).await?;
    for (index, job) in jobs.iter_mut().enumerate() {
        match index {
            0 => {}
            1 => write.execute("SAVEPOINT job").await?,
            _ => write.execute("RELEASE job; SAVEPOINT job").await?,
        }
        let earlier = std::mem::take(&mut write.effects);
        let is_wanted = job.run(write).await;
        let own = std::mem::replace(&mut write.effects, earlier);
        if is_wanted {
            write.effects.append(own);
            continue;
        }
        if index > 0 {
            write.execute("ROLLBACK TO job").await?;
        } else {
            write.execute("ROLLBACK").await?;
            id = begin(write).await?;
        }
    }
    if let (Dialect::Postgres, Some(message)) = (dialect, signals.message(&write.effects)) {
        // Leaves with the commit.
        sqlx::query("SELECT pg_notify($1, $2)").bind(CHANNEL).bind(message).execute(write.connection()).await?;
    }
    let began = Instant::now();
    let committed = write.execute("COMMIT").await;
    let effects = std::mem::take(&mut write.effects);
    match committed {
        Ok(()) => {
            metrics.commit.record(began.elapsed());
            Ok(effects)
        }
        Err(error) => Err(Lost { error, committing: id.map(|id| (id, effects)) }),
    }
}

/// Begins a transaction, and gives its id where one that is lost can be looked for.
async fn begin(write: &mut Write) -> Result<Option<i64>> {
    let dialect = Dialect::of(&write.connection);
    match dialect {
        Dialect::Sqlite => {
            write.execute(dialect.begin()).await?;
            Ok(None)
        }
        Dialect::Postgres => {
            let rows = sqlx::raw_sql(dialect.begin()).fetch_all(write.connection()).await?;
            rows.last().map(|row| column(row, "id")).transpose()
        }
    }
}

#[cfg(test)]
mod tests;
