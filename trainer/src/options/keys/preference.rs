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

/// One of several losses of `objective = "dpo"`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DpoTerm {
    /// Which: one of `preference.loss`, or `ipo`, or `sft`, the mean negative logprob of the chosen answers' tokens.
    pub loss: DpoTermLoss,
    /// What it counts.
    #[serde(default = "whole")]
    pub weight: f64,
}

/// As much as it is.
fn whole() -> f64 {
    1.0
}

/// What one of several losses of `objective = "dpo"` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DpoTermLoss {
    /// As [`DpoLoss::Sigmoid`].
    Sigmoid,
    /// As [`DpoLoss::Hinge`].
    Hinge,
    /// As [`DpoLoss::Robust`].
    Robust,
    /// As [`DpoLoss::ApoZero`].
    ApoZero,
    /// As [`DpoLoss::ApoDown`].
    ApoDown,
    /// That of `objective = "ipo"`.
    Ipo,
    /// The mean negative logprob of the chosen answers' tokens.
    Sft,
}

/// What `objective = "reward_model"` trains to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RewardHead {
    /// The letter of the better one of two answers, by the head that the model has.
    #[default]
    Letters,
    /// A score of each answer by itself, by a head of its own (Bradley and Terry 1952).
    Score,
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
    /// Of `dpo`: several losses in the place of `loss` and `sft_weight`, each times its weight. Rewards and margins are those of the
    /// first that is not `sft`.
    pub losses: Vec<DpoTerm>,
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
    /// Of `reward_model`: what it says of answers: `letters`, which of two is better; `score`, a number for each, read by a head of
    /// its own from the last token (Bradley and Terry 1952).
    pub head: RewardHead,
    /// Of `reward_model` with `head = "score"`: what the squared sum of a comparison's scores counts, so that scores stay around 0
    /// (TRL's `center_rewards_coefficient`).
    pub centering: f64,
    /// The name of one of `[[models]]` with the same tokenizer, in this process; without it, the weights that the run began
    /// with. `orpo` and `simpo` have none.
    pub reference: Option<String>,
}

impl Default for PreferenceOptions {
    fn default() -> Self {
        Self {
            beta: 0.1,
            loss: DpoLoss::default(),
            losses: Vec::new(),
            gamma: 1.0,
            sft_weight: 0.0,
            length_alpha: 1.0,
            label_smoothing: 0.0,
            desirable_weight: 1.0,
            undesirable_weight: 1.0,
            head: RewardHead::default(),
            centering: 0.0,
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
    /// What a rollout earns: its share of `wins`, or the judge's `score` of it, which is for a judge with `preference.head =
    /// "score"`.
    #[serde(default)]
    pub reward: PairwiseReward,
    /// The share of a batch's comparisons that the judge may answer with neither letter nor tie; above it, the run ends.
    #[serde(default = "undecided_limit")]
    pub undecided_limit: f64,
}

/// A half of the comparisons.
fn undecided_limit() -> f64 {
    0.5
}

/// What `[trainer] pairwise` rewards a rollout with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairwiseReward {
    /// Its share of wins over the others of its group.
    #[default]
    Wins,
    /// The judge's score.
    Score,
}

impl PairwiseOptions {
    /// The judge that is no model.
    pub const SHORTER: &str = "shorter";
}
