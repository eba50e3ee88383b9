use fulgurite_types::RewardGiver;

/// Why a reward is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewardRefused {
    /// The attempt has a grader, and this is not its key.
    #[error(
        "the attempt is graded by `{grader}`: its agent gives it no reward. Its runner gives the grader's; to judge it \
         yourself, set an admin key (server.admin_key_file) and send that"
    )]
    Graded {
        /// What its runner calls the grader.
        grader: String,
    },
    /// The key is another attempt's.
    #[error("the API key is of the attempt `{of}`, and rewards nothing of the attempt `{requested}`")]
    OtherAttempt {
        /// Whose key it is.
        of: String,
        /// What was to be rewarded.
        requested: String,
    },
    /// The attempt is over, and with it what its own key may do.
    #[error("the attempt `{attempt_id}` has ended ({status}): its own API key rewards it no more, the admin key does")]
    Ended {
        /// The attempt.
        attempt_id: String,
        /// How it ended.
        status: &'static str,
    },
    /// A giver of higher rank has given the same reward.
    #[error("the reward was given by the {giver}, after whom the agent itself is not asked")]
    Judged {
        /// Who gave it.
        giver: RewardGiver,
    },
    /// The body names another giver than the sender's key allows.
    #[error("giver: a reward is the {giver}'s by its API key; another giver is named with the admin key alone")]
    Claimed {
        /// Who gives it.
        giver: RewardGiver,
    },
}
