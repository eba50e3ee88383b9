//! Worlds: a directory for each attempt, made before its agent and gone after it, with commands of the user's that fill it,
//! look at it and take it away.

mod attempt_world;
mod changes;
mod disk;
mod fault;
mod harbor;
mod hook;
mod hook_command;
mod journal;
mod options;
mod reward_file;
mod snapshot;
mod taking_away;
mod variables;
mod worlds;

pub(crate) use attempt_world::World;
pub(crate) use fault::WorldFault;
#[cfg(test)]
pub(crate) use hook::Hook;
pub use options::WorldOptions;
pub(crate) use reward_file::RewardFile;
pub(crate) use worlds::Worlds;
