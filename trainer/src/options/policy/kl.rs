//! What a config says of a reference that the policy is kept near to.

use serde::{Deserialize, Serialize};

/// Where leaving the reference is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KlPlace {
    /// In the advantages, as tinker-cookbook: no further pass over the rows than the reference's.
    #[default]
    Reward,
    /// In the loss, by a second pass with a gradient.
    Loss,
}

/// What leaving a reference policy costs. In the reward: the advantage of each sampled token grows by
/// `coefficient * (mean(d) - d)`, where `d` is its logprob under the policy less that under the reference, and the mean is the
/// batch's. In the loss: each adds `coefficient * (exp(-d) + d - 1)`, which is differentiated too (GRPO: Shao et al. 2024).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KlOptions {
    /// Scale of the penalty.
    pub coefficient: f32,
    /// Where it is counted.
    #[serde(default, rename = "in")]
    pub place: KlPlace,
    /// Of the reward: above 0, a token answers for what follows it too, each token further discounted by this.
    #[serde(default)]
    pub discount: f32,
    /// The name of one of `[[models]]` with the same tokenizer, in this process; without it, the weights that the run began
    /// with.
    #[serde(default)]
    pub reference: Option<String>,
}
