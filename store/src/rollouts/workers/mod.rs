//! Workers: the programs that take rollouts off the queue.

pub(crate) mod reports;
pub(crate) mod rows;

use crate::open_database::Database;

/// The programs that take rollouts off the queue.
#[derive(Clone, Debug)]
pub struct Workers {
    database: Database,
}

impl Workers {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
