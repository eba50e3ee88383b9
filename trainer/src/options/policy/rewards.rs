//! What rewards are held against.

/// The least and the greatest that a rollout may earn in all, if the options say.
pub(crate) type RewardBounds = Option<[f64; 2]>;

/// What a rollout's rewards are held against.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RewardRules {
    /// The least and the greatest that may be earned.
    pub bounds: RewardBounds,
    /// Whether a rollout that a limit cut off earns 0 at most.
    pub zero_on_limit: bool,
    /// What a rollout earns that its agent failed.
    pub agent_failed: Option<f64>,
}
