use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::Connection;
use uuid::Uuid;

use crate::call_records::at_once;
use crate::call_records::call_record::CallRecord;
use crate::database::dialect::Dialect;
use crate::database::listener::Listener;
use crate::database::location::{Access, Location};
use crate::database::migrations::{migrate, require_migrated};
use crate::database::options::{BUSY_TIMEOUT, StoreOptions};
use crate::database::patience::Patience;
use crate::database::readers::{Reader, Readers};
use crate::database::rollout_cache::RolloutCache;
use crate::database::signals::Signals;
use crate::database::writer::{Write, Writer};
use crate::{Result, StoreError, row_checksums};

/// An open database: connections for reading, the writer, and the signals of commits. It knows nothing of what the store's
/// parts do with it. Clones share it.
#[derive(Clone)]
pub(crate) struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    location: Location,
    readers: Readers,
    /// How long a server may be away.
    patience: Duration,
    writer: Option<Writer<CallRecord>>,
    signals: Arc<Signals>,
    opened: Instant,
    server_id: i64,
    rollout_cache: Arc<RolloutCache>,
    /// Only where other servers may write to the same database.
    listener: Option<Listener>,
}

impl fmt::Debug for Database {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Database").field("read_only", &self.inner.writer.is_none()).finish_non_exhaustive()
    }
}

impl Database {
    /// Opens a database and migrates it; as `Store::open`.
    pub(crate) async fn open(url: &str, options: StoreOptions) -> Result<Self> {
        let location = Location::parse(url)?;
        location.make_private();
        let signals = Arc::new(Signals::default());
        let mut patience = match location.dialect() {
            // A file does not go away.
            Dialect::Sqlite => Patience::new(Duration::ZERO),
            Dialect::Postgres => Patience::new(options.patience),
        };
        loop {
            match Self::open_at(&location, options, &signals).await {
                Ok(database) => return Ok(database),
                Err(error) => patience.wait(error, &signals).await?,
            }
        }
    }

    async fn open_at(location: &Location, options: StoreOptions, signals: &Arc<Signals>) -> Result<Self> {
        let (dialect, busy) = (location.dialect(), options.busy_timeout);
        let preparation = dialect.prepare_writing(options.synchronous, busy);
        let mut connection = location.connector(Access::Create, preparation.clone())?.connect().await?;
        migrate(&mut connection).await?;
        row_checksums::write_missing_id_checksums(&mut connection).await?;
        connection.close().await?;
        let writing = match dialect {
            Dialect::Sqlite => format!("{preparation}; {} {}", at_once::preparation(), row_checksums::triggers()),
            Dialect::Postgres => preparation,
        };
        let connector = location.connector(Access::Change, writing)?;
        let connection = connector.connect().await?;
        let readers = readers(location, Access::Change, busy).await?;
        let signals = Arc::clone(signals);
        let server_id = fresh_server_id();
        let listener = match location {
            Location::Sqlite(_) => None,
            Location::Postgres(url) => Some(Listener::start(url.clone(), Arc::clone(&signals), server_id)),
        };
        let rollout_cache = Arc::new(RolloutCache::new(dialect == Dialect::Postgres));
        let patience = options.patience;
        let writer = Writer::start(connector, connection, patience, Arc::clone(&signals), Arc::clone(&rollout_cache));
        let inner = Inner {
            location: location.clone(),
            readers,
            patience,
            writer: Some(writer),
            signals,
            opened: Instant::now(),
            server_id,
            rollout_cache,
            listener,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Opens an existing, migrated database, and never changes it.
    pub(crate) async fn open_read_only(url: &str) -> Result<Self> {
        let location = Location::parse(url)?;
        if location.is_missing() {
            return Err(StoreError::not_found("store", url));
        }
        let readers = match open_readers(&location, Access::Read).await {
            Err(error) => match location.frozen(&error)? {
                Some(access) => open_readers(&location, access).await?,
                None => return Err(error),
            },
            opened => opened?,
        };
        require_migrated(&mut *readers.acquire().await?).await?;
        let inner = Inner {
            location,
            readers,
            patience: StoreOptions::default().patience,
            writer: None,
            signals: Arc::default(),
            opened: Instant::now(),
            server_id: fresh_server_id(),
            rollout_cache: Arc::new(RolloutCache::new(true)),
            listener: None,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Finishes the writes that wait and closes the database; every later call fails.
    pub(crate) async fn close(&self) {
        // Readers first, so that the writer's connection is the last one and leaves a single file behind.
        self.inner.readers.close().await;
        if let Some(writer) = &self.inner.writer {
            writer.close().await;
        }
        if let Some(listener) = &self.inner.listener {
            listener.stop();
        }
    }

    /// How long it has been open.
    pub(crate) fn uptime(&self) -> Duration {
        self.inner.opened.elapsed()
    }

    /// The number of this server among those that have the database open.
    pub(crate) fn server_id(&self) -> i64 {
        self.inner.server_id
    }

    /// Where the database is.
    pub(crate) fn location(&self) -> &Location {
        &self.inner.location
    }

    pub(crate) fn rollout_cache(&self) -> &RolloutCache {
        &self.inner.rollout_cache
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.inner.signals
    }

    /// Transactions committed since it was opened.
    pub(crate) fn commits(&self) -> u64 {
        self.inner.writer.as_ref().map_or(0, Writer::commits)
    }

    /// Reads, and does it again if the database goes away meanwhile. `read` must change nothing.
    pub(crate) async fn patiently<T, F>(&self, read: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let mut patience = Patience::new(self.inner.patience);
        loop {
            match read().await {
                Ok(value) => return Ok(value),
                Err(error) => patience.wait(error, self.signals()).await?,
            }
        }
    }

    /// A connection for reading.
    pub(crate) async fn reader(&self) -> Result<Reader> {
        self.patiently(|| self.inner.readers.acquire()).await
    }

    /// A connection for reading that is not shared, for a query that may change its settings.
    pub(crate) async fn own_reader(&self) -> Result<Reader> {
        self.inner.readers.own().await
    }

    /// Runs `work` in a transaction; its result is given once that has been committed.
    pub(crate) async fn write<T, F>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c mut Write) -> BoxFuture<'c, Result<T>> + Clone + Send + 'static,
    {
        self.writer()?.write(work).await
    }

    pub(crate) fn writer(&self) -> Result<&Writer<CallRecord>> {
        self.inner.writer.as_ref().ok_or(StoreError::ReadOnly)
    }
}

/// A number that no other server has.
fn fresh_server_id() -> i64 {
    // The random half.
    Uuid::now_v7().as_u64_pair().1.cast_signed() & i64::MAX
}

/// Connections to a database in which something could be read.
async fn open_readers(location: &Location, access: Access) -> Result<Readers> {
    let readers = readers(location, access, BUSY_TIMEOUT).await?;
    // SQLite looks into the file only now.
    sqlx::query("SELECT 1 FROM rollouts LIMIT 1").fetch_optional(&mut *readers.acquire().await?).await?;
    Ok(readers)
}

async fn readers(location: &Location, access: Access, busy: Duration) -> Result<Readers> {
    let connector = location.connector(access, location.dialect().prepare_reading(busy))?;
    match location {
        Location::Sqlite(_) => Ok(Readers::of_file(connector)),
        Location::Postgres(_) => Readers::of_server(&connector).await,
    }
}
