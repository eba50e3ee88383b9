//! Leases: if the runner of an attempt promised a heartbeat and sent none, the reply that handed the attempt out was lost.
//! The attempt goes back into the queue as if it had not been handed out.

use std::time::Duration;

use fulgurite_types::{Attempt, RolloutStatus};
use sqlx::AnyConnection;

use crate::checksums::MASK;
use crate::database::writer::Write;
use crate::rollouts::attempts::rows::attempt_from_row;
use crate::rollouts::changes::set_rollout_status;
use crate::rollouts::rows::existing_rollout;
use crate::row_checksums::lease_digest;
use crate::{Result, StoreError};

/// The longest lease that makes sense, which every clock reaches.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Refuses a lease that ends with its beginning, or never.
pub(crate) fn validate(lease: Option<Duration>) -> Result<()> {
    match lease {
        Some(lease) if lease.is_zero() || lease > LONGEST => {
            let message = format!("must be above 0 and at most {} seconds", LONGEST.as_secs());
            Err(StoreError::invalid("lease_seconds", message))
        }
        _ => Ok(()),
    }
}

/// From now on an attempt waits until `end` for its first sign of life.
pub(crate) async fn begin(connection: &mut AnyConnection, attempt: &Attempt, end: f64) -> Result<()> {
    sqlx::query(
        "UPDATE attempts SET lease_end = $3, checksum = (checksum + $4) & $5 WHERE rollout_id = $1 AND attempt_id = $2",
    )
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .bind(end)
    // An attempt that is handed out has no lease yet.
    .bind(lease_digest(Some(end)))
    .bind(MASK)
    .execute(connection)
    .await?;
    Ok(())
}

/// The latest attempts of their rollouts whose lease has expired without any activity.
pub(crate) async fn expired(connection: &mut AnyConnection, time: f64) -> Result<Vec<Attempt>> {
    // The first condition is that of the index.
    let rows = sqlx::query(
        "SELECT a.* FROM rollouts r JOIN attempts a ON a.rollout_id = r.rollout_id
         WHERE r.end_time IS NULL AND r.status = 'preparing'
             AND a.status = 'preparing' AND a.last_heartbeat_time IS NULL AND a.lease_end < $1
             AND NOT EXISTS (SELECT 1 FROM attempts l WHERE l.rollout_id = a.rollout_id AND l.sequence_id > a.sequence_id)
         ORDER BY r.position",
    )
    .bind(time)
    .fetch_all(connection)
    .await?;
    rows.iter().map(attempt_from_row).collect()
}

/// Takes an attempt back: its rollout has as many left as before, and is queued again.
pub(crate) async fn reclaim(write: &mut Write, attempt: &Attempt) -> Result<()> {
    let Attempt { rollout_id, attempt_id, sequence_id, .. } = attempt;
    sqlx::query("DELETE FROM attempts WHERE rollout_id = $1 AND attempt_id = $2")
        .bind(rollout_id.as_str())
        .bind(attempt_id.as_str())
        .execute(write.connection())
        .await?;
    sqlx::query(
        "UPDATE workers SET status = 'unknown', current_rollout_id = NULL, current_attempt_id = NULL
         WHERE current_rollout_id = $1 AND current_attempt_id = $2",
    )
    .bind(rollout_id.as_str())
    .bind(attempt_id.as_str())
    .execute(write.connection())
    .await?;
    write.rollout_changed(rollout_id);
    write.attempt_ended(attempt);
    let mut rollout = existing_rollout(write.connection(), rollout_id).await?;
    let status = if *sequence_id == 1 { RolloutStatus::Queuing } else { RolloutStatus::Requeuing };
    set_rollout_status(write, &mut rollout, status).await?;
    tracing::info!(rollout_id, attempt_id, "an attempt that was handed out and never begun is queued again");
    Ok(())
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptedRollout, NewRollout};

    use super::*;
    use crate::testing::{TestStore, generation};
    use fulgurite_types::time::now;

    const LEASE: Duration = Duration::from_secs(30);

    /// Hands one rollout out, with a lease if one is given.
    async fn handed_out(store: &TestStore, lease: Option<Duration>) -> AttemptedRollout {
        store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap();
        again(store, lease).await.unwrap()
    }

    async fn again(store: &TestStore, lease: Option<Duration>) -> Option<AttemptedRollout> {
        store.rollouts().dequeue_leased(1, Some("w"), None, Duration::ZERO, lease).await.unwrap().pop()
    }

    #[tokio::test]
    async fn a_dequeue_whose_reply_was_lost_is_given_back_and_costs_no_attempt() {
        let store = TestStore::new().await;
        let lost = handed_out(&store, Some(LEASE)).await;
        assert!(store.attempts().scan_watchdog_at(now() + 29.0).await.unwrap().is_empty());
        assert!(again(&store, None).await.is_none());
        store.attempts().scan_watchdog_at(now() + 31.0).await.unwrap();
        assert_eq!(store.workers().get("w").await.unwrap().unwrap().current_attempt_id, None);
        let second = again(&store, Some(LEASE)).await.unwrap();
        assert_eq!(second.rollout.rollout_id, lost.rollout.rollout_id);
        assert_ne!(second.attempt.attempt_id, lost.attempt.attempt_id);
        assert_eq!(second.attempt.sequence_id, 1);
        assert_eq!(store.attempts().of_rollout(&second.rollout.rollout_id).await.unwrap().len(), 1);
        // If the first worker did get the attempt after all, its reports are refused.
        let late = vec![(lost.rollout.rollout_id, lost.attempt.attempt_id)];
        assert!(store.attempts().heartbeat(late).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_heartbeat_or_a_call_ends_the_lease() {
        let store = TestStore::new().await;
        let beating = handed_out(&store, Some(LEASE)).await;
        let name = (beating.rollout.rollout_id.clone(), beating.attempt.attempt_id.clone());
        store.attempts().heartbeat(vec![name]).await.unwrap();
        let calling = handed_out(&store, Some(LEASE)).await;
        store.recording().record(generation("g", &calling, &[1], &[2])).await.unwrap();
        store.attempts().scan_watchdog_at(now() + 1e6).await.unwrap();
        assert!(again(&store, None).await.is_none());
    }

    #[tokio::test]
    async fn a_runner_that_promises_no_sign_of_life_may_work_in_silence() {
        let store = TestStore::new().await;
        handed_out(&store, None).await;
        store.attempts().scan_watchdog_at(now() + 1e6).await.unwrap();
        assert!(again(&store, None).await.is_none());
    }

    #[tokio::test]
    async fn a_lease_of_no_time_is_refused() {
        let store = TestStore::new().await;
        for lease in [Duration::ZERO, Duration::MAX] {
            let error = store.rollouts().dequeue_leased(1, None, None, Duration::ZERO, Some(lease)).await.unwrap_err();
            assert!(error.to_string().starts_with("lease_seconds: must be above 0"), "{error}");
        }
    }
}
