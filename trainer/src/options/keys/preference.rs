//! What a config says of learning from comparisons of answers.

use serde::{Deserialize, Serialize};

/// How answers are compared: the numbers of `objective = "dpo"`, `"ipo"`, `"orpo"` and `"kto"`. Defaults are the papers'.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PreferenceOptions {
    /// Of `dpo` and `kto`: what a logprob over the reference's is multiplied by; the smaller it is, the further the policy may
    /// move. Of `ipo`: the margin that is aimed at is `1 / (2 beta)`. Of `orpo`: what the odds count beside the likelihood.
    pub beta: f64,
    /// Of `dpo`: the share of comparisons that are taken to be the wrong way round (conservative DPO).
    pub label_smoothing: f64,
    /// Of `kto`: what a good answer counts.
    pub desirable_weight: f64,
    /// Of `kto`: what a bad answer counts.
    pub undesirable_weight: f64,
    /// The name of one of `[[models]]` with the same tokenizer, in this process; without it, the weights that the run began
    /// with. `orpo` has none.
    pub reference: Option<String>,
}

impl Default for PreferenceOptions {
    fn default() -> Self {
        Self { beta: 0.1, label_smoothing: 0.0, desirable_weight: 1.0, undesirable_weight: 1.0, reference: None }
    }
}

/// How the answers of a group are compared, in place of what each earned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairwiseOptions {
    /// Who says which of two answers is better: the name of one of `[[models]]`, trained by `objective = "reward_model"`, or
    /// `shorter`, for which the answer of fewer tokens is.
    pub judge: String,
}

impl PairwiseOptions {
    /// The judge that is no model.
    pub const SHORTER: &str = "shorter";
}
