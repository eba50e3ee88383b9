//! Signs of life: what an attempt is counted to have, and that it runs by that.

use std::sync::{Arc, LazyLock};

use fulgurite_types::{AttemptStatus, RolloutStatus};
use sqlx::{AnyConnection, AssertSqlSafe};

use crate::checksums::{MASK, Recorded};
use crate::database::sql::{column, word};
use crate::database::writer::Write;
use crate::lifecycle::{ATTEMPTS_THAT_WAKE, ROLLOUTS_THAT_WAIT, sql_words};
use crate::rollouts::rows::existing_rollout;
use crate::row_checksums::{attempt_state, difference, heartbeat_checksum, rollout_state};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// An attempt that shows activity.
const ACTIVITY: &str = "UPDATE attempts SET last_heartbeat_time = $3, span_count = span_count + $4,
         generation_count = generation_count + $5, digest = (digest + $6) & $7, heartbeat_checksum = $8
     WHERE rollout_id = $1 AND attempt_id = $2
     RETURNING sequence_id, status, end_time, (SELECT status FROM rollouts WHERE rollout_id = $1) AS rollout_status";

/// It is running.
static ATTEMPT_RUNS: LazyLock<Arc<str>> = LazyLock::new(|| {
    let running = AttemptStatus::Running;
    format!(
        "UPDATE attempts SET status = '{running}', end_time = NULL, checksum = (checksum + $3) & $4
         WHERE rollout_id = $1 AND attempt_id = $2"
    )
    .into()
});

/// And its rollout, if that waits for it.
static ROLLOUT_RUNS: LazyLock<Arc<str>> = LazyLock::new(|| {
    let (wait, running) = (sql_words(&ROLLOUTS_THAT_WAIT), RolloutStatus::Running);
    format!(
        "UPDATE rollouts SET status = '{running}', queue_position = NULL, checksum = (checksum + $3) & $4
         WHERE rollout_id = $1 AND status IN ({wait})
             AND NOT EXISTS (SELECT 1 FROM attempts WHERE rollout_id = $1 AND sequence_id > $2)"
    )
    .into()
});

/// Records activity of an attempt: it runs if it was preparing or unresponsive, and so does a rollout that waits for its
/// latest attempt. An attempt that has ended otherwise stays ended.
pub(crate) async fn record_activity(
    write: &mut Write,
    rollout_id: &str,
    attempt_id: &str,
    recorded: Recorded,
) -> Result<()> {
    let time = now();
    let row = sqlx::query(ACTIVITY)
        .bind(rollout_id)
        .bind(attempt_id)
        .bind(time)
        .bind(recorded.spans)
        .bind(recorded.generations)
        .bind(recorded.digest)
        .bind(MASK)
        .bind(heartbeat_checksum(rollout_id, attempt_id, time))
        .fetch_optional(write.connection())
        .await?;
    let Some(row) = row else {
        existing_rollout(write.connection(), rollout_id).await?;
        return Err(StoreError::not_found("attempt", attempt_id));
    };
    write.attempt_was_active(rollout_id, attempt_id);
    let mut status: AttemptStatus = word(&row, "status")?;
    if ATTEMPTS_THAT_WAKE.contains(&status) {
        let before = attempt_state(status, column(&row, "end_time")?);
        status = AttemptStatus::Running;
        sqlx::query(AssertSqlSafe(Arc::clone(&ATTEMPT_RUNS)))
            .bind(rollout_id)
            .bind(attempt_id)
            .bind(difference(before, attempt_state(status, None)))
            .bind(MASK)
            .execute(write.connection())
            .await?;
    }
    let rollout_status: RolloutStatus = word(&row, "rollout_status")?;
    if !ROLLOUTS_THAT_WAIT.contains(&rollout_status) || status != AttemptStatus::Running {
        return Ok(());
    }
    let change = difference(rollout_state(rollout_status, None), rollout_state(RolloutStatus::Running, None));
    sqlx::query(AssertSqlSafe(Arc::clone(&ROLLOUT_RUNS)))
        .bind(rollout_id)
        .bind(column::<i64>(&row, "sequence_id")?)
        .bind(change)
        .bind(MASK)
        .execute(write.connection())
        .await?;
    Ok(())
}

/// Adds to the counts of an attempt without recording activity.
pub(crate) async fn add_counts(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt_id: &str,
    recorded: Recorded,
) -> Result<()> {
    sqlx::query(
        "UPDATE attempts SET span_count = span_count + $3, generation_count = generation_count + $4,
             digest = (digest + $5) & $6
         WHERE rollout_id = $1 AND attempt_id = $2",
    )
    .bind(rollout_id)
    .bind(attempt_id)
    .bind(recorded.spans)
    .bind(recorded.generations)
    .bind(recorded.digest)
    .bind(MASK)
    .execute(connection)
    .await?;
    Ok(())
}
