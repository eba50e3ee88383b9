//! What a config says of advantages: how rewards become them, and how the losses of tokens add up.

use serde::{Deserialize, Serialize};

/// What a rollout's reward is measured against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The mean of its group, itself included.
    #[default]
    GroupMean,
    /// The mean of the others of its group (RLOO: Ahmadian et al. 2024): `n / (n - 1)` times the centred reward.
    LeaveOneOut,
    /// The mean of all rollouts of the batch (REINFORCE++: Hu et al. 2025), so that a group in which everybody earned the same
    /// teaches too.
    BatchMean,
    /// Nothing (REINFORCE: Williams 1992).
    None,
}

impl Baseline {
    /// Whether a rollout is measured against the others of its group.
    pub(crate) fn is_of_group(self) -> bool {
        matches!(self, Self::GroupMean | Self::LeaveOneOut)
    }
}

/// Which advantages a standard deviation is taken of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Those of a group (GRPO: Shao et al. 2024).
    #[default]
    Group,
    /// Those of the batch (REINFORCE++: Hu et al. 2025).
    Batch,
}

/// Whose rewards means and deviations are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedRollouts {
    /// Rollouts of which some token is trained.
    #[default]
    Trained,
    /// Those that earned a reward, with it, whether or not a token of theirs is trained, as TRL counts completions whose loss it
    /// masks.
    Rewarded,
    /// Those that failed too, with 0.
    All,
}

/// How advantages are computed; the default is tinker-cookbook's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdvantageOptions {
    /// What is taken off the reward.
    pub baseline: Baseline,
    /// Whether to divide by the sample standard deviation plus [`STANDARD_DEVIATION_FLOOR`].
    pub normalize_by_standard_deviation: bool,
    /// Of which advantages that is the deviation.
    pub standard_deviation_of: Spread,
    /// Whose rewards means and deviations are of. Only tokens that can be trained are trained, whoever counts.
    pub counted: CountedRollouts,
    /// Advantages for single calls, from what they earned; without it, every token of a rollout has the rollout's.
    pub per_call: Option<PerCall>,
}

/// Added to the standard deviation, so that rewards that hardly differ do not explode.
pub const STANDARD_DEVIATION_FLOOR: f32 = 1e-6;

/// How the calls of a rollout get advantages of their own.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerCall {
    /// What a reward counts for the call before the one that earned it; for the one before that its square, and so on.
    pub discount: f64,
    /// With which calls of its group a call is compared.
    pub compared_with: ComparedCalls,
    /// How much of its rollout's advantage is added to that of a call.
    pub rollout_weight: f32,
}

impl Default for PerCall {
    fn default() -> Self {
        Self { discount: 1.0, compared_with: ComparedCalls::default(), rollout_weight: 0.0 }
    }
}

/// With which calls of its group a call is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparedCalls {
    /// Those of the same number: every rollout's first, every rollout's second.
    #[default]
    Turn,
    /// Those that were asked the same, token for token, in whichever rollout and turn (GiGPO: Feng et al. 2025).
    State,
}

/// What the losses of the tokens of an optimizer step are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossAggregation {
    /// Nothing: the sum over all tokens, as tinker-cookbook.
    #[default]
    Sum,
    /// All trained tokens (DAPO: Yu et al. 2025), so that each token counts the same, however many there are.
    TokenMean,
    /// The trained tokens of the rollout, and the rollouts (GRPO: Shao et al. 2024), so that each rollout counts the same,
    /// however long it is.
    RolloutMean,
    /// The rollouts (Dr. GRPO: Liu et al. 2025): a rollout counts by its length, and a batch not by its size.
    RolloutSum,
}
