//! Keys that stand for all objectives, for those of data, and for those of rollouts.

pub(super) mod common;
pub(super) mod data;
pub(super) mod loss_terms;
pub(super) mod rollouts;
pub(super) mod supervised;
