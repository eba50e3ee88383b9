//! Rows that have been looked at: which are trained, which are scored, in what order, out of how many files.

pub(super) mod mixture;
pub(super) mod order;
pub(super) mod sequences;
pub(super) mod split_data;
