//! What a config says of learning from comparisons of answers.

use serde::{Deserialize, Serialize};

/// What `objective = "dpo"` makes of a comparison's margin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DpoLoss {
    /// `-log sigmoid` (DPO: Rafailov et al. 2023).
    #[default]
    Sigmoid,
    /// A hinge (SLiC: Zhao et al. 2023).
    Hinge,
    /// Without bias where a share `label_smoothing` of comparisons is the wrong way round (robust DPO: Chowdhury et al. 2024).
    Robust,
    /// Chosen answers become likelier and rejected ones less likely, each by itself (D'Oosterlinck et al. 2024): where chosen
    /// answers are better than the model's own.
    ApoZero,
    /// Both become less likely, rejected ones more so: where chosen answers are worse than the model's own.
    ApoDown,
}

/// How answers are compared: the numbers of `objective = "dpo"`, `"ipo"`, `"orpo"`, `"simpo"` and `"kto"`. Defaults are the
/// papers'.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PreferenceOptions {
    /// Of `dpo` and `kto`: what a logprob over the reference's is multiplied by; the smaller it is, the further the policy may
    /// move. Of `ipo`: the margin that is aimed at is `1 / (2 beta)`. Of `orpo`: what the odds count beside the likelihood. Of `simpo`: what
    /// mean logprobs are multiplied by, 2 unless told otherwise.
    pub beta: f64,
    /// Of `dpo`: what is made of a comparison.
    pub loss: DpoLoss,
    /// Of `simpo`: the margin that mean logprobs are to have, after `beta`.
    pub gamma: f64,
    /// Of `dpo` and `simpo`: what the mean negative logprob of the chosen answers' tokens counts beside the loss, so that they stay
    /// likely (RPO: Pang et al. 2024); 0 leaves it out.
    pub sft_weight: f64,
    /// Of `dpo`: what a token counts behind the length of the shorter answer of its comparison (LD-DPO: Liu et al. 2024); 1 is as
    /// any other, 0 leaves it out.
    pub length_alpha: f64,
    /// Of `dpo`: the share of comparisons that are taken to be the wrong way round (conservative DPO).
    pub label_smoothing: f64,
    /// Of `kto`: what a good answer counts.
    pub desirable_weight: f64,
    /// Of `kto`: what a bad answer counts.
    pub undesirable_weight: f64,
    /// The name of one of `[[models]]` with the same tokenizer, in this process; without it, the weights that the run began
    /// with. `orpo` and `simpo` have none.
    pub reference: Option<String>,
}

impl Default for PreferenceOptions {
    fn default() -> Self {
        Self {
            beta: 0.1,
            loss: DpoLoss::default(),
            gamma: 1.0,
            sft_weight: 0.0,
            length_alpha: 1.0,
            label_smoothing: 0.0,
            desirable_weight: 1.0,
            undesirable_weight: 1.0,
            reference: None,
        }
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
