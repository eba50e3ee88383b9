//! Attempts: one try of a rollout by one agent.

pub(crate) mod activity;
pub(crate) mod leases;
pub(crate) mod opening;
pub(crate) mod propagation;
pub(crate) mod reports;
pub(crate) mod rows;
pub(crate) mod watchdog;

use crate::open_database::Database;

/// Attempts of rollouts, and the watchdog over them.
#[derive(Clone, Debug)]
pub struct Attempts {
    database: Database,
}

impl Attempts {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
