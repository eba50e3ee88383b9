//! Processes: the groups that they are in, the files that they may open, and how they end.

pub(crate) mod end;
pub(crate) mod group;
pub(crate) mod open_files;
