use std::fmt;
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::Result;
use crate::database::options::StoreOptions;
use crate::generations::Generations;
use crate::housekeeping::Housekeeping;
use crate::keys::issued_keys::IssuedKeys;
use crate::keys::secret::{fresh_secret, keep_secret};
use crate::open_database::Database;
use crate::queries::Queries;
use crate::recording::Recording;
use crate::resources::Resources;
use crate::rewards::Rewards;
use crate::rollouts::Rollouts;
use crate::rollouts::attempts::Attempts;
use crate::rollouts::gateway_rollouts::GatewayRollouts;
use crate::rollouts::workers::Workers;
use crate::runs::Runs;
use crate::servers::Servers;
use crate::spans::Spans;
use crate::weights::Weights;

/// An open store. What it holds is read and changed through its parts, one for each subject. Clones share it.
#[derive(Clone)]
pub struct Store {
    parts: Arc<Parts>,
}

struct Parts {
    database: Database,
    /// Loaded on first use.
    issued_keys: OnceCell<IssuedKeys>,
    rollouts: Rollouts,
    attempts: Attempts,
    workers: Workers,
    gateway_rollouts: GatewayRollouts,
    recording: Recording,
    generations: Generations,
    spans: Spans,
    rewards: Rewards,
    resources: Resources,
    runs: Runs,
    servers: Servers,
    weights: Weights,
    queries: Queries,
    housekeeping: Housekeeping,
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Store").field(&self.parts.database).finish()
    }
}

impl Store {
    /// Opens a database and migrates it. `url` is `sqlite://PATH` or a plain path, of a file that is created if it does not
    /// exist; or `postgres://USER:PASSWORD@HOST/DATABASE`, of an existing database. Several servers may have the same
    /// PostgreSQL database open; each needs connections of its own, without a pooler of transactions in between.
    ///
    /// A database server that is away or still starting is waited for, as long as the options' patience.
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self> {
        Ok(Self::over(Database::open(url, options).await?))
    }

    /// Opens an existing, migrated database, and never changes it. It may be open elsewhere for writing, and may be on a
    /// read-only file system.
    pub async fn open_read_only(url: &str) -> Result<Self> {
        Ok(Self::over(Database::open_read_only(url).await?))
    }

    fn over(database: Database) -> Self {
        let parts = Parts {
            issued_keys: OnceCell::new(),
            rollouts: Rollouts::new(&database),
            attempts: Attempts::new(&database),
            workers: Workers::new(&database),
            gateway_rollouts: GatewayRollouts::new(&database),
            recording: Recording::new(&database),
            generations: Generations::new(&database),
            spans: Spans::new(&database),
            rewards: Rewards::new(&database),
            resources: Resources::new(&database),
            runs: Runs::new(&database),
            servers: Servers::new(&database),
            weights: Weights::new(&database),
            queries: Queries::new(&database),
            housekeeping: Housekeeping::new(&database),
            database,
        };
        Self { parts: Arc::new(parts) }
    }

    /// Rollouts and their queue.
    pub fn rollouts(&self) -> &Rollouts {
        &self.parts.rollouts
    }

    /// Attempts of rollouts, and the watchdog over them.
    pub fn attempts(&self) -> &Attempts {
        &self.parts.attempts
    }

    /// The programs that take rollouts off the queue.
    pub fn workers(&self) -> &Workers {
        &self.parts.workers
    }

    /// Rollouts as an orchestrator's gateway sees them.
    pub fn gateway_rollouts(&self) -> &GatewayRollouts {
        &self.parts.gateway_rollouts
    }

    /// Recording of model calls.
    pub fn recording(&self) -> &Recording {
        &self.parts.recording
    }

    /// Recorded generations.
    pub fn generations(&self) -> &Generations {
        &self.parts.generations
    }

    /// Spans, of model calls and of other programs.
    pub fn spans(&self) -> &Spans {
        &self.parts.spans
    }

    /// Rewards of attempts and generations.
    pub fn rewards(&self) -> &Rewards {
        &self.parts.rewards
    }

    /// Versioned resources that rollouts refer to.
    pub fn resources(&self) -> &Resources {
        &self.parts.resources
    }

    /// Training runs, their steps and checkpoints.
    pub fn runs(&self) -> &Runs {
        &self.parts.runs
    }

    /// The servers that have the store open, and those that were killed.
    pub fn servers(&self) -> &Servers {
        &self.parts.servers
    }

    /// Weights of served models.
    pub fn weights(&self) -> &Weights {
        &self.parts.weights
    }

    /// Lists, sums and SQL for people.
    pub fn queries(&self) -> &Queries {
        &self.parts.queries
    }

    /// Checks, deletions and archives of the whole store.
    pub fn housekeeping(&self) -> &Housekeeping {
        &self.parts.housekeeping
    }

    /// The store's URL, with the whole path of a file, and without the password and the options of a database.
    pub fn url(&self) -> String {
        self.parts.database.location().to_string()
    }

    /// Finishes the writes that wait and closes the database; every later call fails.
    pub async fn close(&self) {
        self.parts.database.close().await;
    }

    /// Ends every wait for work and for rollouts to finish, as if its time were over, and those that begin from now on.
    pub fn stop_waiting(&self) {
        self.parts.database.signals().closing.send_replace(true);
    }

    /// Calls `notify` from now on for each attempt that this store ends, by rollout and attempt, once that is committed. It
    /// must not block, and there can be one such listener.
    pub fn notify_of_ended_attempts(&self, notify: impl Fn(&str, &str) + Send + Sync + 'static) {
        self.parts.database.signals().set_end_listener(Box::new(notify));
    }

    /// Whether other servers may write to the same database.
    pub fn others_write(&self) -> bool {
        self.parts.database.rollout_cache().others_write()
    }

    /// Transactions committed since the store was opened. Writes that wait at the same time share one.
    pub fn commits(&self) -> u64 {
        self.parts.database.commits()
    }

    /// The keys that servers on this database issue. Their secret is created once, on first use, and stays.
    pub async fn issued_keys(&self) -> Result<&IssuedKeys> {
        let keep = || async {
            let fresh = fresh_secret()?;
            self.parts.database.write(move |write| Box::pin(keep_secret(write, fresh))).await
        };
        self.parts.issued_keys.get_or_try_init(keep).await
    }

    /// Reads, and does it again if the database goes away meanwhile. `read` must change nothing.
    pub async fn patiently<T, F>(&self, read: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.parts.database.patiently(read).await
    }

    #[cfg(test)]
    pub(crate) fn database(&self) -> &Database {
        &self.parts.database
    }
}
