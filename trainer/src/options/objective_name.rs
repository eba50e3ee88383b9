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
}

impl ObjectiveName {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Grpo, Self::Sft, Self::OnPolicyDistillation];

    /// As a config names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grpo => "grpo",
            Self::Sft => "sft",
            Self::OnPolicyDistillation => "on_policy_distillation",
        }
    }
}
