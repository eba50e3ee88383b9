//! Attempts as rows: reading, finding and inserting one.

use std::collections::HashMap;

use fulgurite_types::{Attempt, AttemptRef, AttemptStatus, Rollout};
use sqlx::AnyConnection;
use sqlx::any::AnyRow;

use crate::checksums::MASK;
use crate::database::sql::{SortField, Sql, checked_id, column, count, optional_id, optional_json, word};
use crate::rollouts::rows::{IDS_PER_QUERY, existing_rollout};
use crate::row_checksums::{AttemptColumns, SEQUENCE_WEIGHT};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

pub(crate) const SORT_FIELDS: &[SortField] = &[
    SortField::text("rollout_id"),
    SortField::text("attempt_id"),
    SortField::number("sequence_id"),
    SortField::time("start_time"),
    SortField::time("end_time"),
    SortField::text("status"),
    SortField::text("worker_id"),
    SortField::time("last_heartbeat_time"),
    SortField::text("metadata"),
];

/// What the latest attempt of a rollout is called where an id is expected.
const LATEST: &str = "latest";

pub(crate) fn attempt_from_row(row: &AnyRow) -> Result<Attempt> {
    Ok(Attempt {
        rollout_id: column(row, "rollout_id")?,
        attempt_id: column(row, "attempt_id")?,
        sequence_id: count(row, "sequence_id")?,
        start_time: column(row, "start_time")?,
        end_time: column(row, "end_time")?,
        status: word(row, "status")?,
        worker_id: column(row, "worker_id")?,
        last_heartbeat_time: column(row, "last_heartbeat_time")?,
        metadata: optional_json(row, "metadata")?,
        grader: column(row, "grader")?,
    })
}

/// Columns of a rollout `r` and beside them those of an attempt `a`, for [`attempt_next_to_rollout`].
macro_rules! rollout_and_attempt {
    () => {
        "r.*, a.attempt_id, a.sequence_id, a.start_time AS attempt_start_time, a.end_time AS attempt_end_time,
         a.status AS attempt_status, a.worker_id, a.last_heartbeat_time, a.metadata AS attempt_metadata,
         a.grader"
    };
}

pub(crate) use rollout_and_attempt;

/// The attempt in a row of a rollout that has the columns of one attempt as well, those that both have as `attempt_..`;
/// they are null where there is none.
pub(crate) fn attempt_next_to_rollout(row: &AnyRow) -> Result<Option<Attempt>> {
    let Some(attempt_id) = column(row, "attempt_id")? else { return Ok(None) };
    Ok(Some(Attempt {
        rollout_id: column(row, "rollout_id")?,
        attempt_id,
        sequence_id: count(row, "sequence_id")?,
        start_time: column(row, "attempt_start_time")?,
        end_time: column(row, "attempt_end_time")?,
        status: word(row, "attempt_status")?,
        worker_id: column(row, "worker_id")?,
        last_heartbeat_time: column(row, "last_heartbeat_time")?,
        metadata: optional_json(row, "attempt_metadata")?,
        grader: column(row, "grader")?,
    }))
}

pub(crate) async fn latest_attempt(connection: &mut AnyConnection, rollout_id: &str) -> Result<Option<Attempt>> {
    let row = sqlx::query("SELECT * FROM attempts WHERE rollout_id = $1 ORDER BY sequence_id DESC LIMIT 1")
        .bind(rollout_id)
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(attempt_from_row).transpose()
}

pub(crate) async fn find_attempt(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> Result<Option<Attempt>> {
    let AttemptRef::Id(attempt_id) = attempt else { return latest_attempt(connection, rollout_id).await };
    let row = sqlx::query("SELECT * FROM attempts WHERE rollout_id = $1 AND attempt_id = $2")
        .bind(rollout_id)
        .bind(attempt_id.as_str())
        .fetch_optional(connection)
        .await?;
    row.as_ref().map(attempt_from_row).transpose()
}

/// An attempt, or which of the two, rollout or attempt, is not there.
pub(crate) async fn existing_attempt(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> Result<Attempt> {
    match find_attempt(connection, rollout_id, attempt).await? {
        Some(attempt) => Ok(attempt),
        None => Err(no_such_attempt(connection, rollout_id, attempt).await),
    }
}

pub(crate) async fn no_such_attempt(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> StoreError {
    match existing_rollout(connection, rollout_id).await {
        Ok(_) => StoreError::not_found("attempt", if let AttemptRef::Id(id) = attempt { id } else { LATEST }),
        Err(error) => error,
    }
}

/// The id of a new attempt. In paths, one reserved word is the latest attempt.
pub(crate) fn new_attempt_name(attempt_id: &str) -> Result<&str> {
    match attempt_id {
        LATEST => Err(StoreError::invalid("attempt_id", "must not be `latest`, which stands for the latest attempt")),
        _ => checked_id("attempt_id", attempt_id),
    }
}

pub(crate) async fn insert_attempt(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt_id: &str,
    worker_id: Option<&str>,
    grader: Option<&str>,
) -> Result<Attempt> {
    let start_time = now();
    let columns = AttemptColumns {
        rollout_id,
        attempt_id,
        sequence_id: 0,
        start_time,
        end_time: None,
        status: AttemptStatus::Preparing.as_str(),
        worker_id,
        metadata: None,
        grader,
        lease_end: None,
        revision: 0,
    };
    let row = sqlx::query(
        "INSERT INTO attempts (rollout_id, attempt_id, sequence_id, start_time, status, worker_id, grader, span_count,
             generation_count, digest, checksum)
         SELECT $1, $2, COALESCE(MAX(sequence_id), 0) + 1, $3, 'preparing', $4, $5, 0, 0, 0,
             ($6 + (COALESCE(MAX(sequence_id), 0) + 1) * $7) & $8
         FROM attempts WHERE rollout_id = $1
         RETURNING *",
    )
    .bind(rollout_id)
    .bind(new_attempt_name(attempt_id)?)
    .bind(start_time)
    .bind(optional_id("worker_id", worker_id)?)
    .bind(optional_id("grader", grader)?)
    .bind(columns.checksum())
    .bind(SEQUENCE_WEIGHT)
    .bind(MASK)
    .fetch_one(connection)
    .await?;
    attempt_from_row(&row)
}

pub(crate) async fn latest_attempts(
    connection: &mut AnyConnection,
    rollouts: &[Rollout],
) -> Result<HashMap<String, Attempt>> {
    let mut attempts = HashMap::new();
    for rollouts in rollouts.chunks(IDS_PER_QUERY) {
        // In the order of their sequence ids, so that the latest is what remains.
        let mut sql = Sql::new("SELECT * FROM attempts WHERE rollout_id IN ");
        sql.list(rollouts.iter().map(|rollout| rollout.rollout_id.as_str())).push(" ORDER BY sequence_id");
        for row in sql.all(connection).await? {
            let attempt = attempt_from_row(&row)?;
            attempts.insert(attempt.rollout_id.clone(), attempt);
        }
    }
    Ok(attempts)
}
