//! Processes: run to their end with what they said, the groups that they are in, and how they end.

pub(crate) mod cgroup;
pub(crate) mod end;
pub(crate) mod group;
pub(crate) mod open_files;
pub(crate) mod run;
