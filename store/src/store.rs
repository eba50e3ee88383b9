use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::any::AnyPoolOptions;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyPool};
use uuid::Uuid;

use crate::sql::count;
use crate::writer::{Signals, Write, Writer};
use crate::{Result, StoreError};

/// Connections that read at the same time.
const READERS: u32 = 4;
/// How long to wait for another program that holds the database.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// When a committed transaction is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// From loss of power.
    #[default]
    Full,
    /// From the end of the process, however sudden, but not from loss of power.
    Normal,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// When a committed transaction is safe.
    pub synchronous: Synchronous,
    /// How long a write waits for another program that holds the database.
    pub busy_timeout: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { synchronous: Synchronous::default(), busy_timeout: BUSY_TIMEOUT }
    }
}

/// How much a store holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Rollouts.
    pub rollouts: u64,
    /// Attempts.
    pub attempts: u64,
    /// Spans.
    pub spans: u64,
    /// Resources, each counted once however many versions it has had.
    pub resources: u64,
    /// Workers.
    pub workers: u64,
    /// Seconds since the store was opened.
    pub uptime_seconds: f64,
}

/// Rollouts, attempts, spans, generations and runs in a database. Clones share it.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

impl fmt::Debug for Store {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Store").field("read_only", &self.inner.writer.is_none()).finish_non_exhaustive()
    }
}

struct Inner {
    readers: AnyPool,
    writer: Option<Writer>,
    signals: Arc<Signals>,
    opened: Instant,
}

impl Store {
    /// Opens a database, which is created and brought up to date as needed. `url` is `sqlite://PATH` or a plain path.
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self> {
        let path = sqlite_path(url)?;
        let synchronous = match options.synchronous {
            Synchronous::Full => "FULL",
            Synchronous::Normal => "NORMAL",
        };
        let pragmas = format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}");
        let pool = connect(&path, "rwc", 1, options.busy_timeout, &pragmas).await?;
        sqlx::migrate!("../migrations/sqlite").run(&pool).await?;
        let readers = connect(&path, "rw", READERS, options.busy_timeout, "PRAGMA query_only = ON").await?;
        let signals = Arc::new(Signals::default());
        let writer = Some(Writer::start(pool, Arc::clone(&signals)));
        Ok(Self { inner: Arc::new(Inner { readers, writer, signals, opened: Instant::now() }) })
    }

    /// Opens a database that is there and up to date, and never changes it. It may be open elsewhere for writing.
    pub async fn open_read_only(url: &str) -> Result<Self> {
        let path = sqlite_path(url)?;
        if !Path::new(&path).exists() {
            return Err(StoreError::not_found("store", url));
        }
        let readers = connect(&path, "ro", READERS, BUSY_TIMEOUT, "PRAGMA query_only = ON").await?;
        // SQLite looks into the file only now.
        sqlx::query("SELECT 1 FROM rollouts LIMIT 1").fetch_optional(&readers).await?;
        Ok(Self { inner: Arc::new(Inner { readers, writer: None, signals: Arc::default(), opened: Instant::now() }) })
    }

    /// Finishes the writes that wait and closes the database; every later call fails.
    pub async fn close(&self) {
        // Readers first, so that the writer's connection is the last one and leaves a single file behind.
        self.inner.readers.close().await;
        if let Some(writer) = &self.inner.writer {
            writer.close().await;
        }
    }

    /// Transactions committed since the store was opened. Writes that wait at the same time share one.
    pub fn commits(&self) -> u64 {
        self.inner.writer.as_ref().map_or(0, Writer::commits)
    }

    /// How much the store holds.
    pub async fn statistics(&self) -> Result<Statistics> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM rollouts) AS rollouts, (SELECT COUNT(*) FROM attempts) AS attempts,
                 (SELECT COUNT(*) FROM spans) AS spans, (SELECT COUNT(*) FROM resources) AS resources,
                 (SELECT COUNT(*) FROM workers) AS workers",
        )
        .fetch_one(&mut *self.reader().await?)
        .await?;
        Ok(Statistics {
            rollouts: count(&row, "rollouts")?,
            attempts: count(&row, "attempts")?,
            spans: count(&row, "spans")?,
            resources: count(&row, "resources")?,
            workers: count(&row, "workers")?,
            uptime_seconds: self.inner.opened.elapsed().as_secs_f64(),
        })
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.inner.signals
    }

    /// A connection for reading.
    pub(crate) async fn reader(&self) -> Result<PoolConnection<Any>> {
        Ok(self.inner.readers.acquire().await?)
    }

    /// Runs `work` in a transaction; its result is given once that has been committed.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Write) -> BoxFuture<'c, Result<T>> + Send + 'static,
    {
        self.writer()?.write(work).await
    }

    pub(crate) fn writer(&self) -> Result<&Writer> {
        self.inner.writer.as_ref().ok_or(StoreError::ReadOnly)
    }
}

/// The path in a store's URL, made absolute.
fn sqlite_path(url: &str) -> Result<String> {
    let invalid = |message: String| StoreError::invalid("store.url", message);
    let path = match url.split_once("://") {
        Some(("sqlite", path)) => path,
        Some((scheme, _)) => {
            return Err(invalid(format!("`{scheme}` is not a database that this program knows; use sqlite://PATH")));
        }
        None => url,
    };
    let absolute = std::path::absolute(Path::new(path)).map_err(|error| invalid(format!("{path:?}: {error}")))?;
    absolute.to_str().map(str::to_owned).ok_or_else(|| invalid(format!("{path:?} is not UTF-8")))
}

async fn connect(path: &str, mode: &str, connections: u32, busy: Duration, pragmas: &str) -> Result<AnyPool> {
    sqlx::any::install_default_drivers();
    let path = path.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    let pragmas: Arc<str> =
        format!("PRAGMA busy_timeout = {}; PRAGMA foreign_keys = ON; {pragmas}", busy.as_millis()).into();
    let pool = AnyPoolOptions::new()
        .max_connections(connections)
        .idle_timeout(None)
        .max_lifetime(None)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let pragmas = Arc::clone(&pragmas);
            Box::pin(async move {
                sqlx::raw_sql(sqlx::AssertSqlSafe(pragmas)).execute(connection).await?;
                Ok(())
            })
        })
        .connect(&format!("sqlite://{path}?mode={mode}"))
        .await?;
    Ok(pool)
}

/// `prefix` and as many random hexadecimal digits.
pub(crate) fn new_id(prefix: &str, digits: usize) -> String {
    // The low half of a version 7 UUID is random; its high half is the time.
    let text = Uuid::now_v7().simple().to_string();
    format!("{prefix}{}", &text[text.len() - digits..])
}
