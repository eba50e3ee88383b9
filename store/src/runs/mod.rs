//! Training runs: their steps, checkpoints, and what became of every token.

pub(crate) mod leases;
pub(crate) mod other_callers;
pub(crate) mod record;
pub(crate) mod teacher_logprobs;
pub(crate) mod totals;
pub(crate) mod trained_elsewhere;
pub(crate) mod unaccounted;

use crate::open_database::Database;

/// Training runs, their steps and checkpoints.
#[derive(Clone, Debug)]
pub struct Runs {
    database: Database,
}

impl Runs {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
