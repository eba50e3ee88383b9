//! Attempts: one try of a rollout by one agent.

pub(crate) mod following;
pub(crate) mod hearing;
pub(crate) mod leases;
pub(crate) mod opening;
pub(crate) mod reports;
pub(crate) mod rows;
pub(crate) mod watchdog;
