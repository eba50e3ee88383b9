use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::Connection;
use tokio::sync::OnceCell;

use crate::call_records::at_once;
use crate::call_records::call_listener::CallListener;
use crate::call_records::call_record::CallRecord;
use crate::call_records::latest_calls::LatestCalls;
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
use crate::keys::issued_keys::IssuedKeys;
use crate::keys::secret::{fresh_secret, keep_secret};
use crate::{Result, StoreError, row_checksums};

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
    location: Location,
    readers: Readers,
    /// How long a server may be away.
    patience: Duration,
    writer: Option<Writer<CallRecord>>,
    signals: Arc<Signals>,
    opened: Instant,
    /// Loaded on first use.
    issued_keys: OnceCell<IssuedKeys>,
    call_listener: OnceLock<CallListener>,
    latest_calls: LatestCalls,
    rollout_cache: Arc<RolloutCache>,
    /// Only where other servers may write to the same database.
    _listener: Option<Listener>,
}

impl Store {
    /// Opens a database and migrates it. `url` is `sqlite://PATH` or a plain path, of a file that is created if it does not
    /// exist; or `postgres://USER:PASSWORD@HOST/DATABASE`, of an existing database. Several servers may have the same
    /// PostgreSQL database open; each needs connections of its own, without a pooler of transactions in between.
    ///
    /// A database server that is away or still starting is waited for, as long as the options' patience.
    pub async fn open(url: &str, options: StoreOptions) -> Result<Self> {
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
                Ok(store) => return Ok(store),
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
        let listener = match location {
            Location::Sqlite(_) => None,
            Location::Postgres(url) => Some(Listener::start(url.clone(), Arc::clone(&signals))),
        };
        let rollout_cache = Arc::new(RolloutCache::new(dialect == Dialect::Postgres));
        let patience = options.patience;
        let writer = Writer::start(connector, connection, patience, Arc::clone(&signals), Arc::clone(&rollout_cache));
        Ok(Self::new(location.clone(), readers, patience, Some(writer), signals, rollout_cache, listener))
    }

    /// Opens an existing, migrated database, and never changes it. It may be open elsewhere for writing, and may be on a
    /// read-only file system.
    pub async fn open_read_only(url: &str) -> Result<Self> {
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
        let patience = StoreOptions::default().patience;
        Ok(Self::new(location, readers, patience, None, Arc::default(), Arc::new(RolloutCache::new(true)), None))
    }

    fn new(
        location: Location,
        readers: Readers,
        patience: Duration,
        writer: Option<Writer<CallRecord>>,
        signals: Arc<Signals>,
        rollout_cache: Arc<RolloutCache>,
        _listener: Option<Listener>,
    ) -> Self {
        let (opened, issued_keys) = (Instant::now(), OnceCell::new());
        let (call_listener, latest_calls) = (OnceLock::new(), LatestCalls::default());
        let inner = Inner {
            location,
            readers,
            patience,
            writer,
            signals,
            opened,
            issued_keys,
            call_listener,
            latest_calls,
            rollout_cache,
            _listener,
        };
        Self { inner: Arc::new(inner) }
    }

    /// The store's URL, with the whole path of a file, and without the password and the options of a database.
    pub fn url(&self) -> String {
        self.inner.location.to_string()
    }

    /// Finishes the writes that wait and closes the database; every later call fails.
    pub async fn close(&self) {
        // Readers first, so that the writer's connection is the last one and leaves a single file behind.
        self.inner.readers.close().await;
        if let Some(writer) = &self.inner.writer {
            writer.close().await;
        }
    }

    /// Ends every wait for work and for rollouts to finish, as if its time were over, and those that begin from now on.
    pub fn stop_waiting(&self) {
        self.inner.signals.closing.send_replace(true);
    }

    /// Calls `notify` from now on for each attempt that this store ends, by rollout and attempt, once that is committed. It
    /// must not block, and there can be one such listener.
    pub fn notify_of_ended_attempts(&self, tell: impl Fn(&str, &str) + Send + Sync + 'static) {
        self.inner.signals.set_end_listener(Box::new(tell));
    }

    /// Whether other servers may write to the same database.
    pub fn others_write(&self) -> bool {
        self.inner.rollout_cache.others_write()
    }

    /// Transactions committed since the store was opened. Writes that wait at the same time share one.
    pub fn commits(&self) -> u64 {
        self.inner.writer.as_ref().map_or(0, Writer::commits)
    }

    /// The keys that servers on this database issue. Their secret is created once, on first use, and stays.
    pub async fn issued_keys(&self) -> Result<&IssuedKeys> {
        let keep = || async {
            let fresh = fresh_secret()?;
            self.write(move |write| Box::pin(keep_secret(write, fresh))).await
        };
        self.inner.issued_keys.get_or_try_init(keep).await
    }

    /// How long the store has been open.
    pub(crate) fn uptime(&self) -> Duration {
        self.inner.opened.elapsed()
    }

    /// Where the database is.
    pub(crate) fn location(&self) -> &Location {
        &self.inner.location
    }

    pub(crate) fn call_listener(&self) -> &OnceLock<CallListener> {
        &self.inner.call_listener
    }

    pub(crate) fn latest_calls(&self) -> &LatestCalls {
        &self.inner.latest_calls
    }

    pub(crate) fn rollout_cache(&self) -> &RolloutCache {
        &self.inner.rollout_cache
    }

    pub(crate) fn signals(&self) -> &Signals {
        &self.inner.signals
    }

    /// Reads, and does it again if the database goes away meanwhile. `read` must change nothing.
    pub async fn patiently<T, F>(&self, read: impl Fn() -> F) -> Result<T>
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
        let mut patience = Patience::new(self.inner.patience);
        loop {
            match self.inner.readers.acquire().await {
                Ok(reader) => return Ok(reader),
                Err(error) => patience.wait(error, self.signals()).await?,
            }
        }
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
