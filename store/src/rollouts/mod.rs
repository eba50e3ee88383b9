//! Rollouts: tasks in a queue, handed out to workers, attempted, and how they end. One aggregate: whatever changes one of
//! the three changes the others with it.

pub(crate) mod attempts;
pub(crate) mod cached;
pub(crate) mod changes;
pub(crate) mod completions;
pub(crate) mod deletion;
pub(crate) mod gateway_rollouts;
pub(crate) mod named;
pub(crate) mod pages;
pub(crate) mod queue;
pub(crate) mod reading;
pub(crate) mod rows;
pub(crate) mod workers;

use crate::open_database::Database;

/// Rollouts and their queue.
#[derive(Clone, Debug)]
pub struct Rollouts {
    database: Database,
}

impl Rollouts {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}

#[cfg(test)]
mod tests;
