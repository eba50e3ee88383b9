//! What a run learns by.

use serde::{Deserialize, Serialize};

/// What a run learns by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectiveName {
    /// Rewards: group-relative policy optimisation and its relatives.
    #[default]
    Grpo,
    /// Conversations, by cross entropy: supervised fine-tuning.
    Sft,
    /// A teacher's logprobs of what the policy sampled: on-policy distillation.
    OnPolicyDistillation,
    /// A teacher's likeliest tokens in the places of conversations: off-policy distillation.
    OffPolicyDistillation,
    /// Comparisons: direct preference optimisation against a reference.
    Dpo,
    /// Comparisons: the same with a margin that is aimed at.
    Ipo,
    /// Comparisons: the chosen answer's likelihood, and its odds against the rejected one's; without a reference.
    Orpo,
    /// Comparisons: the mean logprobs of both answers and a margin; without a reference.
    Simpo,
    /// Comparisons, or answers that are good or bad, each by itself.
    Kto,
    /// Comparisons, as questions whose answer is one letter: a model that says which of two answers is better.
    RewardModel,
}

impl ObjectiveName {
    /// Every one.
    pub const ALL: [Self; 10] = [
        Self::Grpo,
        Self::Sft,
        Self::OnPolicyDistillation,
        Self::OffPolicyDistillation,
        Self::Dpo,
        Self::Ipo,
        Self::Orpo,
        Self::Simpo,
        Self::Kto,
        Self::RewardModel,
    ];

    /// Whether it learns from data that are there, and nobody samples.
    pub fn learns_from_data(self) -> bool {
        matches!(self, Self::Sft | Self::OffPolicyDistillation | Self::RewardModel) || self.compares()
    }

    /// Whether its data are comparisons of answers.
    pub fn reads_comparisons(self) -> bool {
        self == Self::RewardModel || self.compares()
    }

    /// Whether it makes one of two answers likelier beside the other.
    pub fn compares(self) -> bool {
        matches!(self, Self::Dpo | Self::Ipo | Self::Orpo | Self::Simpo | Self::Kto)
    }

    /// As a config names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grpo => "grpo",
            Self::Sft => "sft",
            Self::OnPolicyDistillation => "on_policy_distillation",
            Self::OffPolicyDistillation => "off_policy_distillation",
            Self::Dpo => "dpo",
            Self::Ipo => "ipo",
            Self::Orpo => "orpo",
            Self::Simpo => "simpo",
            Self::Kto => "kto",
            Self::RewardModel => "reward_model",
        }
    }
}
