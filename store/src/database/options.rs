//! How a store is opened.

use std::time::Duration;

/// How long to wait for another program that holds the database.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a database server is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// When a committed transaction is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// From loss of power.
    #[default]
    Full,
    /// From the end of the process, however sudden, but not from loss of power; on PostgreSQL also not from the sudden
    /// end of the database server.
    Normal,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// When a committed transaction is safe.
    pub synchronous: Synchronous,
    /// How long a write waits for another program that holds the database.
    pub busy_timeout: Duration,
    /// How long a PostgreSQL server may be away, as while it is restarted, before that is an error.
    pub patience: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { synchronous: Synchronous::default(), busy_timeout: BUSY_TIMEOUT, patience: PATIENCE }
    }
}
