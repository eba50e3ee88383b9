//! Keeping a store in order: checking it, deleting what is over, and moving it elsewhere as an archive.

pub(crate) mod check;
pub(crate) mod portable;
pub(crate) mod prune;

use crate::open_database::Database;

/// Checks, deletions and archives of a whole store.
#[derive(Clone, Debug)]
pub struct Housekeeping {
    database: Database,
}

impl Housekeeping {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
