//! Spans and generations to triplets, trajectories and training datums.
//!
//! - [`Trajectory`], [`TrajectoryGroup`]: the calls of one rollout; the rollouts that share a baseline.
//! - [`trajectory_to_data`]: every sampled token into exactly one [`fulgurite_backends::Datum`], by token-exact prefixes.
//! - [`UntrainedCause`]: what is not trained, and why, by name.
//! - [`supervised_datum`]: one row for cross entropy.

mod error;
mod merging;
mod supervised;
mod termination;
mod trajectory;
mod trajectory_data;
mod untrained;
#[cfg(test)]
mod vectors;

pub use error::AdapterError;
pub use supervised::{Reduction, supervised_datum};
pub use termination::zero_reward_on_limit;
pub use trajectory::{Action, EpisodeStop, Trajectory, TrajectoryGroup, Transition};
pub use trajectory_data::trajectory_to_data;
pub use untrained::UntrainedCause;
