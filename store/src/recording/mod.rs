//! Recording model calls: the way of every answer before its last byte leaves.
//!
//! A call is prepared where it comes from (`call_records::call_record`), and not where one write after the other is done.
//! On SQLite a call, or several that wait together, are one statement and one commit (`call_records::at_once`), in which
//! the calls that they continue are a guess (`call_records::latest_calls`) that the statement checks. Where the guess is
//! wrong, on PostgreSQL, and within a transaction with other writes that fails, it is done statement by statement
//! (`one_by_one`). Both leave the same rows.

mod call_notifications;
pub(crate) mod one_by_one;
mod record;

use std::fmt;
use std::sync::OnceLock;

use crate::call_records::call_listener::CallListener;
use crate::call_records::latest_calls::LatestCalls;
use crate::open_database::Database;

/// Recording of model calls.
pub struct Recording {
    database: Database,
    /// Notified of each call that is committed.
    listener: OnceLock<CallListener>,
    latest_calls: LatestCalls,
}

impl fmt::Debug for Recording {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Recording").field(&self.database).finish()
    }
}

impl Recording {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone(), listener: OnceLock::new(), latest_calls: LatestCalls::default() }
    }
}

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod tests;
