//! What outlives the process: records, a small file each, and the weights that they tell of.
//!
//! - [`records`]: what is remembered.
//! - [`state_directory`]: where it is kept.
//! - [`names`], [`clock`], [`lifetimes`]: what files may be called; times; how long a checkpoint stays.

pub(crate) mod lifetimes;
pub(crate) mod names;
pub(crate) mod records;
pub(crate) mod state_directory;
