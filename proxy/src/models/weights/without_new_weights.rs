use serde::{Deserialize, Serialize};

/// What becomes of a model's calls at a server that could not load its newest weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WithoutNewWeights {
    /// They are sampled from those that it has.
    #[default]
    Serve,
    /// They are refused until it has the newest ones.
    Refuse,
}
