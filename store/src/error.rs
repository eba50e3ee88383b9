use std::sync::Arc;

/// Why the store could not do what it was asked. Nothing has been changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such thing.
    #[error("{kind} not found: {id}")]
    NotFound {
        /// What was looked for: `rollout`, `attempt`, `generation`, `run`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// It is there already.
    #[error("{kind} {id} already exists")]
    Conflict {
        /// What is there.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The request makes no sense.
    #[error("{field}: {message}")]
    Invalid {
        /// Which part of it.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// More writes wait than may wait; the same write may succeed later.
    #[error("the store has {limit} writes waiting and takes no more for now")]
    Busy {
        /// How many may wait.
        limit: usize,
    },
    /// The disk is full.
    #[error("no room left for {url}")]
    Full {
        /// Which database.
        url: String,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// The database failed, or holds what it should not hold.
    #[error("{action} failed: {source}")]
    Database {
        /// What was being done.
        action: &'static str,
        /// What the database said.
        source: Arc<sqlx::Error>,
    },
    /// A row cannot be read as what it should be.
    #[error("{table}.{column} holds what cannot be read: {message}")]
    Corrupt {
        /// Which table.
        table: &'static str,
        /// Which column.
        column: &'static str,
        /// What is wrong with it.
        message: String,
    },
}

/// What the store's methods give.
pub type Result<T> = std::result::Result<T, StoreError>;
