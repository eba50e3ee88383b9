use std::sync::Arc;

/// Why the store could not do what it was asked. Nothing has been changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such thing.
    #[error("{kind} not found: {id}")]
    NotFound {
        /// What was looked for: `store`, `rollout`, `attempt`, `generation`, `run`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// It is there already.
    #[error("{kind} already exists: {id}")]
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
    /// Another program holds the database; the same request may succeed later.
    #[error("another program holds the database: {message}")]
    Busy {
        /// What the database said.
        message: String,
    },
    /// The disk is full.
    #[error("no room left for the database: {message}")]
    Full {
        /// What the database said.
        message: String,
    },
    /// The store was opened for reading only.
    #[error("the store is open for reading only")]
    ReadOnly,
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
    /// The database failed.
    #[error("the database failed: {source}")]
    Database {
        /// What it said.
        source: Arc<sqlx::Error>,
    },
    /// A row cannot be read as what it should be.
    #[error("{column} holds what cannot be read: {message}")]
    Corrupt {
        /// Which column.
        column: String,
        /// What is wrong with it.
        message: String,
    },
}

/// What the store's methods give.
pub type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    pub(crate) fn not_found(kind: &'static str, id: &str) -> Self {
        Self::NotFound { kind, id: id.to_owned() }
    }

    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        // The primary result code is the low byte of SQLite's extended code.
        let code =
            error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok()).map(|code| code & 0xff);
        let message = error.to_string();
        match (code, &error) {
            (Some(5 | 6), _) => Self::Busy { message },
            (Some(13), _) => Self::Full { message },
            (_, sqlx::Error::PoolClosed) => Self::Closed,
            _ => Self::Database { source: Arc::new(error) },
        }
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        sqlx::Error::from(error).into()
    }
}
