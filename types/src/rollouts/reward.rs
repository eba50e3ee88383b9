use serde::{Deserialize, Serialize};

use crate::AttemptRef;
use crate::text::words::words;

words! {
    /// Who gave a reward, by the key that it came with.
    RewardGiver {
        /// The grader that the attempt's runner named.
        Grader = "grader",
        /// A model or program that judges what others did.
        Judge = "judge",
        /// Somebody who looked at it.
        Person = "person",
        /// Whoever holds the admin key, and says no more.
        Admin = "admin",
        /// The agent itself.
        Agent = "agent",
        /// A client without a key, of a server that has no admin key.
        Unknown = "unknown",
    }
}

impl RewardGiver {
    /// Whether it ranks above the agent that is judged.
    pub fn is_judge(self) -> bool {
        !matches!(self, Self::Agent | Self::Unknown)
    }
}

/// How good something was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reward {
    /// The reward that counts. Finite.
    pub value: f64,
    /// What it is called; `primary` if nobody says otherwise.
    pub name: String,
    /// Further named numbers, in order. Finite.
    pub components: Vec<(String, f64)>,
}

impl Reward {
    /// The name of a reward that nobody named.
    pub const DEFAULT_NAME: &str = "primary";

    /// A reward without components, under the default name.
    pub fn new(value: f64) -> Self {
        Self { value, name: Self::DEFAULT_NAME.to_owned(), components: Vec::new() }
    }
}

/// An attempt that was rewarded as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewarded {
    /// Its rollout.
    pub rollout_id: String,
    /// The attempt.
    pub attempt_id: String,
}

/// A part of the attempts that were rewarded as a whole, in the order of their first such reward.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RewardedAttempts {
    /// The part.
    pub items: Vec<Rewarded>,
    /// The place after which the next part begins.
    pub next_after: u64,
}

/// A reward as it is found among the spans of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedReward {
    /// The attempt whose span it is.
    pub attempt_id: String,
    /// The span.
    pub span_id: String,
    /// The span's place in its rollout.
    pub sequence_id: u64,
    /// When it was given.
    pub time: Option<f64>,
    /// The generation that it is for; `None` if it is for the whole attempt.
    pub generation_id: Option<String>,
    /// The reward.
    pub reward: Reward,
    /// Who gave it; `None` of one that was stored before that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub giver: Option<RewardGiver>,
}

/// A reward on its way into the store.
#[derive(Clone, Debug)]
pub struct NewReward {
    /// The rollout.
    pub rollout_id: String,
    /// The attempt; `None` of a generation means its own.
    pub attempt: Option<AttemptRef>,
    /// The generation that is rewarded; `None` if the attempt as a whole is.
    pub generation_id: Option<String>,
    /// The reward.
    pub reward: Reward,
    /// Whom the body names as its giver.
    pub giver: Option<RewardGiver>,
    /// Whether it may have come before.
    pub repeat: Repeat,
}

/// By what a request is known again that is sent once more because its answer was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Repeat {
    /// It is new, however much it looks like another.
    #[default]
    New,
    /// By its `Idempotency-Key`.
    Key(String),
    /// It says itself that it is sent again: it is the latest that is equal.
    Retry,
}
