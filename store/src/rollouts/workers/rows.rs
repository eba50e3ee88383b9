//! Workers as rows, and what they are noted to do.

use fulgurite_types::{Attempt, AttemptStatus, Worker, WorkerStatus};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::Result;
use crate::database::sql::{checked_id, column, optional_json, word};
use fulgurite_types::time::now;

pub(crate) fn worker_from_row(row: &AnyRow) -> Result<Worker> {
    Ok(Worker {
        worker_id: column(row, "worker_id")?,
        status: word(row, "status")?,
        heartbeat_stats: optional_json(row, "heartbeat_stats")?,
        last_heartbeat_time: column(row, "last_heartbeat_time")?,
        last_dequeue_time: column(row, "last_dequeue_time")?,
        last_busy_time: column(row, "last_busy_time")?,
        last_idle_time: column(row, "last_idle_time")?,
        current_rollout_id: column(row, "current_rollout_id")?,
        current_attempt_id: column(row, "current_attempt_id")?,
    })
}

/// Records that a worker has polled for work.
pub(crate) async fn worker_polled(connection: &mut AnyConnection, worker_id: &str) -> Result<()> {
    sqlx::query(
        "INSERT INTO workers (worker_id, status, last_dequeue_time) VALUES ($1, 'unknown', $2)
         ON CONFLICT (worker_id) DO UPDATE SET last_dequeue_time = excluded.last_dequeue_time",
    )
    .bind(checked_id("worker_id", worker_id)?)
    .bind(now())
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that there was none: the worker is idle, since now if it was not before.
pub(crate) async fn worker_found_nothing(connection: &mut AnyConnection, worker_id: &str) -> Result<()> {
    sqlx::query(
        "UPDATE workers SET status = 'idle', last_idle_time = $2, current_rollout_id = NULL, current_attempt_id = NULL
         WHERE worker_id = $1 AND status <> 'idle'",
    )
    .bind(worker_id)
    .bind(now())
    .execute(connection)
    .await?;
    Ok(())
}

/// Notes that a worker is busy with an attempt.
pub(crate) async fn worker_took(connection: &mut AnyConnection, worker_id: &str, attempt: &Attempt) -> Result<()> {
    sqlx::query(
        "INSERT INTO workers (worker_id, status, last_busy_time, current_rollout_id, current_attempt_id)
         VALUES ($1, 'busy', $2, $3, $4)
         ON CONFLICT (worker_id) DO UPDATE SET status = excluded.status, last_busy_time = excluded.last_busy_time,
             current_rollout_id = excluded.current_rollout_id, current_attempt_id = excluded.current_attempt_id",
    )
    .bind(checked_id("worker_id", worker_id)?)
    .bind(attempt.start_time)
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .execute(connection)
    .await?;
    Ok(())
}

/// Updates an attempt's worker by the attempt's new status. A worker that has moved to another attempt is left alone when
/// an earlier one ends.
pub(crate) async fn worker_follows_attempt(connection: &mut AnyConnection, attempt: &Attempt) -> Result<()> {
    let Some(worker_id) = attempt.worker_id.as_deref() else { return Ok(()) };
    let status = match attempt.status {
        AttemptStatus::Preparing | AttemptStatus::Running => return worker_took(connection, worker_id, attempt).await,
        AttemptStatus::Succeeded | AttemptStatus::Failed => WorkerStatus::Idle,
        AttemptStatus::Timeout | AttemptStatus::Unresponsive => WorkerStatus::Unknown,
    };
    sqlx::query(
        "UPDATE workers SET status = $2, last_idle_time = $3, current_rollout_id = NULL, current_attempt_id = NULL
         WHERE worker_id = $1 AND (current_attempt_id IS NULL OR
             (current_rollout_id = $4 AND current_attempt_id = $5))",
    )
    .bind(worker_id)
    .bind(status.as_str())
    .bind(now())
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .execute(connection)
    .await?;
    Ok(())
}
