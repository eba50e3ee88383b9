//! The flat table of a config, and what takes its keys out of it.

pub(super) mod part;
pub(super) mod table;
