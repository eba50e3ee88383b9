use serde::{Deserialize, Serialize};

/// How the step size goes on after the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LearningRateSchedule {
    /// It stays.
    #[default]
    Constant,
    /// It falls to 0 along a line: `1 - s / T` after `s` of `T` steps.
    Linear,
    /// It falls to 0 along half a cosine: `(1 + cos(pi s / T)) / 2`.
    Cosine,
}
