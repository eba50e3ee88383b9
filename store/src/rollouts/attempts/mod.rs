//! Attempts: one try of a rollout by one agent.

pub(crate) mod activity;
pub(crate) mod leases;
pub(crate) mod opening;
pub(crate) mod propagation;
pub(crate) mod reports;
pub(crate) mod rows;
pub(crate) mod watchdog;
