use serde::{Deserialize, Serialize};

use crate::{Attempt, Generation, PackedGeneration, RecordedReward, Rollout};

/// A rollout with all that was recorded of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutRecord {
    /// The rollout.
    pub rollout: Rollout,
    /// Its attempts, in order; the last one counts.
    pub attempts: Vec<Attempt>,
    /// The rewards of the last attempt, in the order in which they were given.
    pub rewards: Vec<RecordedReward>,
    /// What was sampled in all attempts, in the order of recording.
    pub generations: Vec<Generation>,
}

/// As much of a [`RolloutRecord`] as one answer has of it, for the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackedRolloutRecord {
    /// The rollout.
    pub rollout: Rollout,
    /// Its attempts, in order.
    pub attempts: Vec<Attempt>,
    /// The rewards of the last attempt.
    pub rewards: Vec<RecordedReward>,
    /// The first of its generations.
    pub generations: Vec<PackedGeneration>,
    /// How many generations to pass over to read on; `None` if these are all.
    pub next_offset: Option<u64>,
}
