//! Generations to trajectories and training datums.
//!
//! - [`Trajectory`], [`TrajectoryGroup`]: the calls of one rollout; the rollouts that share a baseline.
//! - [`merge_generations`], [`trajectory_to_data`]: every sampled token into exactly one
//!   [`Datum`](fulgurite_types::Datum), by token-exact prefixes.
//! - [`exclusion`], [`UntrainedCause`](fulgurite_types::UntrainedCause): what is not trained, and why, by name;
//!   [`side_requests`]: what stands beside the task, by its shape.
//! - [`zero_reward_on_limit`]: a reward that running into a limit cannot earn.
//! - [`supervised_datum`]: one row for cross entropy; [`sampled_sequences`]: what was sampled, to learn it again.

mod error;
mod exclusion;
mod generations;
mod merging;
#[cfg(test)]
mod recorded;
mod rewards;
mod side_requests;
mod supervised;
mod termination;
mod trajectory;
mod trajectory_data;
#[cfg(test)]
mod vectors;

pub use error::AdapterError;
pub use exclusion::{exclusion, exclusion_at, exclusion_at_own_temperature};
pub use generations::{merge_generations, turns_in_time};
pub use side_requests::side_requests;
pub use supervised::{Reduction, sampled_sequences, supervised_datum};
pub use termination::zero_reward_on_limit;
pub use trajectory::{Action, Trajectory, TrajectoryGroup, Transition};
pub use trajectory_data::{trajectory_to_data, turns_to_data};
