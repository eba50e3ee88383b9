//! Workers: those who take rollouts.

pub(crate) mod reports;
pub(crate) mod rows;
