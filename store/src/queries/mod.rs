//! Queries for people: lists, sums, SQL.

pub(crate) mod drift;
pub(crate) mod hidden_secrets;
pub(crate) mod listing;
pub(crate) mod postgres_sql;
pub(crate) mod progress;
pub(crate) mod raw_sql;
mod rollout_record;
pub(crate) mod sql_rows;
pub(crate) mod statistics;
pub(crate) mod summary;

use crate::open_database::Database;

/// Lists, sums and SQL for people.
#[derive(Clone, Debug)]
pub struct Queries {
    database: Database,
}

impl Queries {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
