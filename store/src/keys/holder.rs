//! The holder of a key, and why a key is refused.

/// The holder of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyHolder {
    /// The operator of the server.
    Admin,
    /// An agent: its rollout's model calls and rewards.
    Attempt {
        /// Its rollout.
        rollout_id: String,
        /// The attempt that the key was made for, and which calls that name no attempt belong to.
        attempt_id: String,
    },
    /// The grader of an attempt: its rewards, and nothing else.
    Grader {
        /// Its rollout.
        rollout_id: String,
        /// The attempt that is graded.
        attempt_id: String,
    },
    /// An agent whose calls name their rollout themselves: model calls of any rollout, and nothing else.
    ModelCalls,
}

/// Why a key does not open what it was sent to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefused {
    /// There is none, or it was not issued here.
    #[error("Invalid or missing API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")]
    Unknown,
    /// Its time is over.
    #[error("the API key expired at {expired} (seconds since 1970)")]
    Expired {
        /// When, in seconds since the epoch.
        expired: u64,
    },
    /// It opens another rollout.
    #[error("the API key is of the rollout `{of}`, and opens nothing of `{requested}`")]
    OtherRollout {
        /// The rollout that it opens.
        of: String,
        /// The rollout that was requested.
        requested: String,
    },
    /// It opens model calls, and rewards at most.
    #[error("the API key of {of} does not open this: the admin key does")]
    AdminOnly {
        /// Whose key it is.
        of: &'static str,
    },
}
