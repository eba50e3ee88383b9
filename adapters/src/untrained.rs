use serde::{Deserialize, Serialize};

/// Why a recorded generation was not trained. One list for the whole program: what is trained and what is listed under
/// one of these causes add up to everything that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UntrainedCause {
    /// The call was passed on to an upstream: whose weights and which tokens they were is not known here.
    Upstream,
    /// The client hung up before it had the whole answer: what it acted on is not known.
    ClientGone,
    /// The sampler failed in the middle of the answer: the agent got an error instead.
    BrokenOff,
    /// No token was sampled.
    NoSampledTokens,
    /// Nothing stood before the first sampled token, so that nothing predicts it.
    EmptyPrompt,
    /// Not one finite logprob for each sampled token.
    NoLogprobs,
    /// A harness asked for it beside the task, such as a title.
    Auxiliary,
    /// The store marks the record as defective.
    Defective,
    /// Nobody knows which weights sampled it.
    UnknownWeights,
    /// Sampled at another temperature than 1 or with tokens cut off by top-p or top-k: the logprobs are not those of
    /// the policy that is trained.
    ModifiedDistribution,
    /// The call belongs to no rollout that the trainer started or was asked to harvest.
    Unattributed,
    /// The rollout was an evaluation.
    Evaluation,
    /// The attempt was still running when its group was trained.
    UnfinishedAttempt,
    /// The attempt failed.
    FailedAttempt,
    /// A later attempt of the same rollout counts instead.
    SupersededAttempt,
    /// The rollout earned more or less than the trainer was told that any may.
    RewardOutOfBounds,
    /// A reward of the rollout is so large that sums of such rewards are no finite numbers.
    RewardTooLarge,
    /// The prompt was made with another tokenizer than the learner's.
    UnknownTokenizer,
    /// Sampled by another model than the one that is trained.
    OtherModel,
    /// Every rollout of the group earned the same: no advantage, nothing to learn.
    ConstantGroup,
    /// Sampled from weights older than the limit allows.
    StaleWeights,
    /// Trained after the checkpoint that the run was resumed from; the update was lost with the process.
    AfterLastCheckpoint,
}

impl UntrainedCause {
    /// Every cause, in the order of declaration.
    pub const ALL: [Self; 22] = [
        Self::Upstream,
        Self::ClientGone,
        Self::BrokenOff,
        Self::NoSampledTokens,
        Self::EmptyPrompt,
        Self::NoLogprobs,
        Self::Auxiliary,
        Self::Defective,
        Self::UnknownWeights,
        Self::ModifiedDistribution,
        Self::Unattributed,
        Self::Evaluation,
        Self::UnfinishedAttempt,
        Self::FailedAttempt,
        Self::SupersededAttempt,
        Self::RewardOutOfBounds,
        Self::RewardTooLarge,
        Self::UnknownTokenizer,
        Self::OtherModel,
        Self::ConstantGroup,
        Self::StaleWeights,
        Self::AfterLastCheckpoint,
    ];

    /// The name in ledgers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::ClientGone => "client_gone",
            Self::BrokenOff => "broken_off",
            Self::NoSampledTokens => "no_sampled_tokens",
            Self::EmptyPrompt => "empty_prompt",
            Self::NoLogprobs => "no_logprobs",
            Self::Auxiliary => "auxiliary",
            Self::Defective => "defective",
            Self::UnknownWeights => "unknown_weights",
            Self::ModifiedDistribution => "modified_distribution",
            Self::Unattributed => "unattributed",
            Self::Evaluation => "evaluation",
            Self::UnfinishedAttempt => "unfinished_attempt",
            Self::FailedAttempt => "failed_attempt",
            Self::SupersededAttempt => "superseded_attempt",
            Self::RewardOutOfBounds => "reward_out_of_bounds",
            Self::RewardTooLarge => "reward_too_large",
            Self::UnknownTokenizer => "unknown_tokenizer",
            Self::OtherModel => "other_model",
            Self::ConstantGroup => "constant_group",
            Self::StaleWeights => "stale_weights",
            Self::AfterLastCheckpoint => "after_last_checkpoint",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_written_as_they_are_named() {
        for cause in UntrainedCause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.as_str());
        }
    }
}
