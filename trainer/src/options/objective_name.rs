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
}

impl ObjectiveName {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Grpo, Self::Sft, Self::OnPolicyDistillation, Self::OffPolicyDistillation];

    /// Whether it learns from conversations that are there, and nobody samples.
    pub fn learns_from_conversations(self) -> bool {
        matches!(self, Self::Sft | Self::OffPolicyDistillation)
    }

    /// As a config names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grpo => "grpo",
            Self::Sft => "sft",
            Self::OnPolicyDistillation => "on_policy_distillation",
            Self::OffPolicyDistillation => "off_policy_distillation",
        }
    }
}
