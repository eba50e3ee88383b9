//! Workers: the programs that take rollouts off the queue.

pub(crate) mod reports;
pub(crate) mod rows;
