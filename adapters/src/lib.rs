//! Spans and generations to triplets, trajectories and training datums.
//!
//! - [`Triplet`]: one model call with its reward, in Agent-lightning's shape. [`any_triplets`] finds them among spans of
//!   any source; [`tracer_triplets`] and [`llm_proxy_triplets`] as Agent-lightning does. A [`TripletReport`] says of every
//!   other span why it is none.
//! - [`messages`]: spans to conversations, for supervised training.
//! - [`Trajectory`], [`TrajectoryGroup`]: the calls of one rollout; the rollouts that share a baseline.
//! - [`merge_generations`], [`trajectory_to_data`]: every sampled token into exactly one
//!   [`Datum`](fulgurite_types::Datum), by token-exact prefixes.
//! - [`exclusion`], [`UntrainedCause`](fulgurite_types::UntrainedCause): what is not trained, and why, by name.
//! - [`zero_reward_on_limit`]: a reward that running into a limit cannot earn.
//! - [`supervised_datum`]: one row for cross entropy.

mod error;
mod exclusion;
mod generations;
mod merging;
#[cfg(test)]
mod recorded;
mod rewards;
mod spans;
mod supervised;
mod termination;
mod trajectory;
mod trajectory_data;
mod triplet;
#[cfg(test)]
mod vectors;

pub use error::AdapterError;
pub use exclusion::exclusion;
pub use generations::merge_generations;
pub use spans::{
    Conversation, ConversationReport, LiteralError, PassedOver, Reason, RewardMatch, TripletOptions, TripletReport,
    any_triplets, llm_proxy_triplets, messages, parse_python_literal, tracer_triplets,
};
pub use supervised::{Reduction, supervised_datum};
pub use termination::zero_reward_on_limit;
pub use trajectory::{Action, EpisodeStop, Trajectory, TrajectoryGroup, Transition};
pub use trajectory_data::trajectory_to_data;
pub use triplet::{GenerationFacts, Triplet, TripletMetadata, TripletPrompt, TripletResponse};
