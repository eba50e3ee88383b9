use serde::{Deserialize, Serialize};

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
}
