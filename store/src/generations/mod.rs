//! Generations: what was sampled in each model call, rebuilt from deltas of what it continues.

pub(crate) mod continued;
pub(crate) mod reading;

use crate::open_database::Database;

/// Recorded generations.
#[derive(Clone, Debug)]
pub struct Generations {
    database: Database,
}

impl Generations {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
