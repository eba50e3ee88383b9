//! What a check looks through, and what it tells.

use serde::Serialize;

/// Rows that are read at a time.
pub(super) const PAGE: u64 = 500;

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which law, by name.
    pub law: &'static str,
    /// The row that breaks it, or the database's own words.
    pub row: String,
    /// In which way.
    pub message: String,
}

/// What a check tells while it runs.
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
