//! When the rollouts of a step are run.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// When the rollouts of a step are run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SamplingSchedule {
    /// Once the weights that they are to train are in place: agents and learner wait for each other.
    #[default]
    Sync,
    /// Ahead, while the learner computes.
    Async {
        /// Updates, at most, that the weights which sampled a token may be behind those that it trains; 0 is as `sync`.
        max_staleness: u64,
    },
    /// For so many parts of a batch, each of whole groups: the learner computes on those that have ended while agents play the
    /// others, and takes one step behind the last.
    Minibatches(NonZeroUsize),
}

impl SamplingSchedule {
    /// Updates, at most, that the weights which sampled a token may be behind those that it trains.
    pub fn max_staleness(self) -> u64 {
        match self {
            Self::Sync | Self::Minibatches(_) => 0,
            Self::Async { max_staleness } => max_staleness,
        }
    }
}
