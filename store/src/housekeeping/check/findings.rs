//! What a check examines and reports.

use serde::Serialize;

/// Rows that are read at a time.
pub(super) const PAGE: u64 = 500;

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which law, by name.
    pub law: &'static str,
    /// The id of the row, or the database's message.
    pub row: String,
    /// In which way.
    pub message: String,
}

/// A report of a running check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckEvent {
    /// So many rows of a table have been looked at.
    Progress {
        /// The table.
        table: &'static str,
        /// Rows so far.
        done: u64,
        /// Rows in all.
        total: u64,
    },
    /// A law does not hold.
    Violation(Violation),
    /// So many rows were recorded before there were checksums, so that a change of them might not show.
    WithoutChecksum {
        /// The table.
        table: &'static str,
        /// Rows.
        rows: u64,
    },
}

/// A check under way.
pub(super) struct Check<'r> {
    pub(super) violations: u64,
    pub(super) report: &'r mut (dyn FnMut(CheckEvent) + Send),
}
