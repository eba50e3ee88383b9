use crate::text::words::{text_in_json, words};

words! {
    /// Why a recorded generation was not trained. One list for the whole program: what is trained and what is listed under
    /// one of these causes add up to everything that was recorded.
    UntrainedCause {
        /// The call was passed on to an upstream: whose weights and which tokens they were is not known here.
        Upstream = "upstream",
        /// The client hung up before it had the whole answer: what it acted on is not known.
        ClientDisconnected = "client_gone",
        /// The sampler failed in the middle of the answer: the agent got an error instead.
        BrokenOff = "broken_off",
        /// No token was sampled.
        NoSampledTokens = "no_sampled_tokens",
        /// Nothing stood before the first sampled token, so that nothing predicts it.
        EmptyPrompt = "empty_prompt",
        /// Not one finite logprob for each sampled token.
        NoLogprobs = "no_logprobs",
        /// A harness asked for it beside the task, such as a title.
        Auxiliary = "auxiliary",
        /// The store marks the record as defective.
        Defective = "defective",
        /// Sampled from weights that nobody knows, or that the run cannot name as its own.
        UnknownWeights = "unknown_weights",
        /// Sampled at another temperature than the run's or with tokens cut off by top-p or top-k: the logprobs are not those of
        /// the policy that is trained.
        ModifiedDistribution = "modified_distribution",
        /// The call belongs to no rollout that the trainer started or was asked to harvest.
        Unattributed = "unattributed",
        /// The rollout was an evaluation.
        Evaluation = "evaluation",
        /// The attempt was still running when its group was trained.
        UnfinishedAttempt = "unfinished_attempt",
        /// The attempt failed.
        FailedAttempt = "failed_attempt",
        /// A later attempt of the same rollout counts instead.
        SupersededAttempt = "superseded_attempt",
        /// The rollout earned more or less than the trainer was told that any may.
        RewardOutOfBounds = "reward_out_of_bounds",
        /// A reward of the rollout is so large that sums of such rewards are no finite numbers.
        RewardTooLarge = "reward_too_large",
        /// So few rollouts of the group were left by failures that are not the policy's that nothing was learnt of it.
        TooFewMembers = "too_few_members",
        /// The prompt was made with another tokenizer than the learner's.
        UnknownTokenizer = "unknown_tokenizer",
        /// Sampled by another model than the one that is trained.
        OtherModel = "other_model",
        /// Every rollout of the group earned the same: no advantage, nothing to learn.
        ConstantGroup = "constant_group",
        /// The task was easier or harder for the group than the run was told to learn from.
        OutsideDifficulty = "outside_difficulty",
        /// Sampled from weights older than the limit allows.
        StaleWeights = "stale_weights",
        /// Another run of the store has trained it.
        TrainedBefore = "trained_before",
        /// Sampled ahead for a step that the run did not make: it stopped early.
        AfterLastStep = "after_last_step",
        /// Trained after the checkpoint that the run was resumed from; the update was lost with the process.
        AfterLastCheckpoint = "after_last_checkpoint",
    }
}

/// Whether a generation is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Trained,
    /// It is not.
    Untrained(UntrainedCause),
}

impl Verdict {
    /// The verdict where there may be a cause not to train it.
    pub fn of(cause: Option<UntrainedCause>) -> Self {
        cause.map_or(Self::Trained, Self::Untrained)
    }

    /// Whether it is trained.
    pub fn is_trained(self) -> bool {
        self == Self::Trained
    }
}

/// What became of sampled tokens in a run: a word of its ledger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenUse {
    /// They were trained.
    Trained,
    /// They were not, and this is why.
    Untrained(UntrainedCause),
    /// The run has not accounted for them. No run can say this of its own.
    Unaccounted,
    /// A word of another version of this program.
    Other(String),
}

impl TokenUse {
    /// The word, in JSON and in SQL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Trained => "trained",
            Self::Untrained(cause) => cause.as_str(),
            Self::Unaccounted => "other",
            Self::Other(word) => word,
        }
    }
}

impl From<Verdict> for TokenUse {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Trained => Self::Trained,
            Verdict::Untrained(cause) => Self::Untrained(cause),
        }
    }
}

impl From<String> for TokenUse {
    fn from(word: String) -> Self {
        match UntrainedCause::from_word(&word) {
            Some(cause) => Self::Untrained(cause),
            None => [Self::Trained, Self::Unaccounted]
                .into_iter()
                .find(|known| known.as_str() == word)
                .unwrap_or(Self::Other(word)),
        }
    }
}

text_in_json!(TokenUse);
