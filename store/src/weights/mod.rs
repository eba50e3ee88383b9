//! Weights of served models: which ones a version names, which are published, and what each server samples from.

mod names;
mod publications;
mod served;

use crate::open_database::Database;

/// Weights of served models.
#[derive(Clone, Debug)]
pub struct Weights {
    database: Database,
}

impl Weights {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
