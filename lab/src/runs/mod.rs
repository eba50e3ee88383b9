//! The registry of runs: which there are, how each stands, its checkpoints.

pub mod checkpoints;
pub mod differing_keys;
mod lines;
pub mod progress;
pub mod registry;
pub mod run_answers;
#[cfg(test)]
mod testing;
pub mod which_checkpoint;

pub use self::lines::{lines, signed};
