//! What follows from what in the life of a rollout and its attempts; no I/O.

use std::fmt::Display;

use fulgurite_types::{AttemptStatus, RolloutConfig, RolloutStatus};

/// The states of an attempt that activity sets to running.
pub(crate) const ATTEMPTS_THAT_WAKE: [AttemptStatus; 2] = [AttemptStatus::Preparing, AttemptStatus::Unresponsive];

/// What a rollout may be that runs, once its latest attempt does.
pub(crate) const ROLLOUTS_THAT_WAIT: [RolloutStatus; 2] = [RolloutStatus::Preparing, RolloutStatus::Requeuing];

/// Words in SQL, with commas between them.
pub(crate) fn sql_words<W: Display>(words: &[W]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
}

/// The state of a rollout once its latest attempt has `status`.
pub(crate) fn propagate(status: AttemptStatus, sequence_id: u32, config: &RolloutConfig) -> RolloutStatus {
    match status {
        AttemptStatus::Preparing => RolloutStatus::Preparing,
        AttemptStatus::Running => RolloutStatus::Running,
        AttemptStatus::Succeeded => RolloutStatus::Succeeded,
        AttemptStatus::Failed | AttemptStatus::Timeout | AttemptStatus::Unresponsive => {
            if config.retry_condition.contains(&status) && sequence_id < config.max_attempts {
                RolloutStatus::Requeuing
            } else {
                RolloutStatus::Failed
            }
        }
    }
}

/// The status of an attempt that is overdue: `Timeout`, `Unresponsive`, or nothing.
pub(crate) fn overdue(
    now: f64,
    start_time: f64,
    last_heartbeat_time: Option<f64>,
    config: &RolloutConfig,
) -> Option<AttemptStatus> {
    if config.timeout_seconds.is_some_and(|limit| now - start_time > limit) {
        return Some(AttemptStatus::Timeout);
    }
    let last_heard = last_heartbeat_time.unwrap_or(start_time);
    config.unresponsive_seconds.is_some_and(|limit| now - last_heard > limit).then_some(AttemptStatus::Unresponsive)
}

#[cfg(test)]
mod model_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn config(max_attempts: u32, retry_condition: &[AttemptStatus]) -> RolloutConfig {
        RolloutConfig { max_attempts, retry_condition: retry_condition.to_vec(), ..RolloutConfig::default() }
    }

    #[test]
    fn a_rollout_follows_its_latest_attempt() {
        use {AttemptStatus as A, RolloutStatus as R};

        let retried = config(2, &[A::Failed, A::Timeout]);
        let table = [
            (A::Preparing, 1, R::Preparing),
            (A::Running, 1, R::Running),
            (A::Succeeded, 1, R::Succeeded),
            (A::Failed, 1, R::Requeuing),
            (A::Failed, 2, R::Failed),
            (A::Timeout, 1, R::Requeuing),
            (A::Timeout, 2, R::Failed),
            (A::Unresponsive, 1, R::Failed),
        ];
        for (status, sequence_id, expected) in table {
            assert_eq!(propagate(status, sequence_id, &retried), expected, "{status} of attempt {sequence_id}");
        }
        assert_eq!(propagate(A::Failed, 1, &config(1, &[A::Failed])), R::Failed);
    }

    #[test]
    fn a_timeout_counts_from_the_start_and_silence_from_the_last_heartbeat() {
        let config = RolloutConfig {
            timeout_seconds: Some(100.0),
            unresponsive_seconds: Some(10.0),
            ..RolloutConfig::default()
        };
        assert_eq!(overdue(10.0, 0.0, None, &config), None);
        assert_eq!(overdue(10.5, 0.0, None, &config), Some(AttemptStatus::Unresponsive));
        assert_eq!(overdue(10.5, 0.0, Some(1.0), &config), None);
        assert_eq!(overdue(100.5, 0.0, Some(100.0), &config), Some(AttemptStatus::Timeout));
        assert_eq!(overdue(1e9, 0.0, None, &RolloutConfig::default()), None);
    }
}
