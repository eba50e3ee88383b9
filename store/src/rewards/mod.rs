//! Rewards: given, and attempts in the order in which they got some.

pub(crate) mod giving;
pub(crate) mod rewarded;

use crate::open_database::Database;

/// Rewards of attempts and generations.
#[derive(Clone, Debug)]
pub struct Rewards {
    database: Database,
}

impl Rewards {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
