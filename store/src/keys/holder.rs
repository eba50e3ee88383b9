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
    /// The grader of an attempt: its rewards, and model calls that judge it.
    Grader {
        /// Its rollout.
        rollout_id: String,
        /// The attempt that is graded.
        attempt_id: String,
    },
    /// An agent whose calls name their rollout themselves: model calls of any rollout, and nothing else.
    ModelCalls,
    /// Somebody who looks: everything is read, and nothing is changed.
    Reader,
    /// A runner that cannot be trusted with more: it takes rollouts off the queue, and speaks for attempts that it took.
    Worker {
        /// What its name is, or begins with before a hyphen.
        name: String,
    },
}

impl KeyHolder {
    /// Refuses a key that is of other workers than this one. Keys that are of no worker are not asked.
    ///
    /// # Errors
    /// If it is of another.
    pub fn check_worker(&self, worker_id: Option<&str>) -> Result<(), KeyRefused> {
        let KeyHolder::Worker { name } = self else { return Ok(()) };
        let is_own =
            |id: &str| id.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        match worker_id.is_some_and(is_own) {
            true => Ok(()),
            false => {
                Err(KeyRefused::OtherWorker { of: name.clone(), requested: worker_id.unwrap_or_default().to_owned() })
            }
        }
    }
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
    /// It is of another worker.
    #[error("the API key is of the workers `{of}` and `{of}-...`, and opens nothing of `{requested}`")]
    OtherWorker {
        /// The workers that it is of.
        of: String,
        /// The worker that was named.
        requested: String,
    },
    /// It opens what is read, and nothing that changes anything.
    #[error("the API key of a reader changes nothing: the admin key does")]
    ReadsOnly,
    /// It opens model calls, and rewards at most.
    #[error("the API key of {of} does not open this: the admin key does")]
    AdminOnly {
        /// Whose key it is.
        of: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workers_key_is_of_the_workers_that_have_its_name() {
        let holder = KeyHolder::Worker { name: "box".to_owned() };
        for (worker_id, is_own) in
            [(Some("box"), true), (Some("box-1"), true), (Some("boxes"), false), (Some("bo"), false), (None, false)]
        {
            assert_eq!(holder.check_worker(worker_id).is_ok(), is_own, "{worker_id:?}");
        }
        assert_eq!(KeyHolder::Admin.check_worker(Some("anybody")), Ok(()));
    }
}
