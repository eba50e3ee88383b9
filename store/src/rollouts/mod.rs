//! Rollouts: tasks in a queue, handed out, and how they end.

pub(crate) mod cached;
pub(crate) mod changes;
pub(crate) mod completions;
pub(crate) mod gateway_rollouts;
pub(crate) mod named;
pub(crate) mod pages;
pub(crate) mod queue;
pub(crate) mod reading;
pub(crate) mod records;
pub(crate) mod rows;

#[cfg(test)]
mod tests;
