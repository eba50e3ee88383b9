use std::sync::Arc;

use fulgurite_types::{GatewayState, Publication, PublishedFiles};

use crate::reward_refused::RewardRefused;

/// Why the store could not do what was requested. Nothing has been changed.
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
    /// It exists already.
    #[error("{kind} already exists: {id}")]
    Conflict {
        /// What exists.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// Several sessions have the same name, each by another header.
    #[error("`{name}` names more than one session: {rollouts}; use the id of the one that you want")]
    AmbiguousSession {
        /// The name.
        name: String,
        /// Ids of their rollouts, each with its header.
        rollouts: String,
    },
    /// A reward for the same thing has another name.
    #[error(
        "the reward of {target} is named `{earlier}`, and only one name counts: revise it under that name, or give `{name}` \
         as one of its components"
    )]
    OtherRewardName {
        /// What is rewarded.
        target: String,
        /// The name of the reward that it has.
        earlier: String,
        /// The name of the new one.
        name: String,
    },
    /// The transition is not allowed in the rollout's state.
    #[error("Rollout {rollout_id}: cannot transition {from} -> {to}")]
    IllegalTransition {
        /// Which rollout.
        rollout_id: String,
        /// Its state.
        from: GatewayState,
        /// Where it cannot go.
        to: GatewayState,
    },
    /// It cannot be deleted, because a training run has used what belongs to it.
    #[error("{kind} is part of a training run's record: {id}")]
    InUse {
        /// What cannot be deleted.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The sender may not give the reward.
    #[error(transparent)]
    RewardRefused(#[from] RewardRefused),
    /// Other weights are behind the model than those that the publication may take the place of.
    #[error(
        "model {model} has version {} (weights {}{}), and version {version} may not take its place",
        current.weights.version, current.weights.weights_id, made_by(current)
    )]
    WeightsInPlace {
        /// Whose weights.
        model: String,
        /// The version that was to be published.
        version: u64,
        /// What is behind the model.
        current: Box<Publication>,
    },
    /// A version was published with other files before, or over another base.
    #[error("version {version} of model {model} was published with other files, or over another base, than these")]
    OtherFiles {
        /// Whose weights.
        model: String,
        /// The version.
        version: u64,
        /// What it was published with.
        known: Box<PublishedFiles>,
    },
    /// A request came before with the same `Idempotency-Key` and another body.
    #[error("Idempotency-Key: the same key came with another body before")]
    KeyReused,
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
        /// The database's message.
        message: String,
    },
    /// The disk is full.
    #[error("no room left for the database: {message}")]
    Full {
        /// The database's message.
        message: String,
    },
    /// The database cannot be reached, or was lost in the middle; the same request may succeed later.
    #[error("the database cannot be reached: {message}")]
    Unavailable {
        /// What went wrong.
        message: String,
    },
    /// The store is of an earlier version, and opening it for reading does not change it.
    #[error(
        "the store was made by an earlier version of this program (it lacks migration {migration}); open it once for \
         writing, as `fulgurite serve` does"
    )]
    Outdated {
        /// The first migration that it has not had.
        migration: i64,
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
        /// Its message.
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

/// Who made published weights, for a message.
fn made_by(publication: &Publication) -> String {
    match (&publication.weights.run_id, publication.weights.step) {
        (Some(run_id), Some(step)) => format!(", run {run_id} after {step} updates"),
        _ => String::new(),
    }
}

/// What the store's methods give.
pub type Result<T> = std::result::Result<T, StoreError>;

impl StoreError {
    /// There is no such thing.
    pub fn not_found(kind: &'static str, id: &str) -> Self {
        Self::NotFound { kind, id: id.to_owned() }
    }

    /// Whether the same may succeed later without anybody's doing, because the database is away.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// A value of a field that it cannot have.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        if let Some(known) = known_failure(&error) {
            return known;
        }
        let message = error.to_string();
        match error {
            sqlx::Error::PoolClosed => Self::Closed,
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::PoolTimedOut | sqlx::Error::WorkerCrashed => {
                Self::Unavailable { message }
            }
            error => Self::Database { source: Arc::new(error) },
        }
    }
}

/// What the code of a database's error means, where a caller can do something about it.
fn known_failure(error: &sqlx::Error) -> Option<StoreError> {
    let database = error.as_database_error()?;
    let (code, message) = (database.code()?, database.message().to_owned());
    if database.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().is_some() {
        sqlstate(&code, message)
    } else {
        sqlite_code(code.parse().ok()?, message)
    }
}

/// Whether SQLite refuses what was written, and not to write.
pub(crate) fn is_constraint(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<u32>().ok());
    code.is_some_and(|code| code & 0xff == 19)
}

/// SQLite's extended result codes, of which the low byte is the primary one.
fn sqlite_code(code: u32, message: String) -> Option<StoreError> {
    /// The operating system refused to make the file longer.
    const IOERR_WRITE: u32 = 778;
    match (code, code & 0xff) {
        (_, 5 | 6) => Some(StoreError::Busy { message }),
        (_, 13) | (IOERR_WRITE, _) => Some(StoreError::Full { message }),
        _ => None,
    }
}

/// PostgreSQL's codes (its manual, appendix A).
fn sqlstate(code: &str, message: String) -> Option<StoreError> {
    match code {
        // lock_not_available, serialization_failure, deadlock_detected
        "55P03" | "40001" | "40P01" => Some(StoreError::Busy { message }),
        // disk_full
        "53100" => Some(StoreError::Full { message }),
        // read_only_sql_transaction
        "25006" => Some(StoreError::ReadOnly),
        // character_not_in_repertoire, program_limit_exceeded: what was sent cannot be stored
        "22021" | "54000" => Some(StoreError::invalid("text", message)),
        // connections that are refused, broken or ended; idle_in_transaction_session_timeout; too_many_connections
        "25P03" | "53300" | "57P01" | "57P02" | "57P03" | "57P05" => Some(StoreError::Unavailable { message }),
        _ if code.starts_with("08") => Some(StoreError::Unavailable { message }),
        _ => None,
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(error: sqlx::migrate::MigrateError) -> Self {
        sqlx::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_a_caller_can_do_about_them() {
        let error_message = || "said".to_owned();
        assert!(matches!(sqlite_code(5, error_message()), Some(StoreError::Busy { message }) if message == "said"));
        assert!(matches!(sqlite_code(517, error_message()), Some(StoreError::Busy { .. })));
        assert!(matches!(sqlite_code(13, error_message()), Some(StoreError::Full { .. })));
        assert!(matches!(sqlite_code(778, error_message()), Some(StoreError::Full { .. })));
        assert!(sqlite_code(266, error_message()).is_none());
        assert!(matches!(sqlstate("55P03", error_message()), Some(StoreError::Busy { .. })));
        assert!(matches!(sqlstate("53100", error_message()), Some(StoreError::Full { .. })));
        assert!(matches!(sqlstate("08006", error_message()), Some(StoreError::Unavailable { .. })));
        assert!(matches!(sqlstate("25006", error_message()), Some(StoreError::ReadOnly)));
        assert!(sqlstate("23505", error_message()).is_none());
    }
}
