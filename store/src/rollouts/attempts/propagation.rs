//! What follows from a change of an attempt: its rollout and its worker go with it.

use fulgurite_types::{Attempt, AttemptNote, AttemptRef, AttemptUpdate, Object, Rollout};
use sqlx::AnyConnection;

use crate::checksums::{MASK, add};
use crate::database::sql::{OptionalReal, column, count, optional_id, to_json};
use crate::database::writer::Write;
use crate::lifecycle::propagate;
use crate::rollouts::attempts::rows::{attempt_next_to_rollout, no_such_attempt, rollout_and_attempt};
use crate::rollouts::changes::set_rollout_status;
use crate::rollouts::rows::rollout_from_row;
use crate::rollouts::workers::rows::worker_follows_attempt;
use crate::row_checksums::{
    REVISION_WEIGHT, attempt_state, difference, heartbeat_checksum, metadata_digest, worker_digest,
};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// An attempt, and its rollout if it is the latest of it: that one follows it.
pub(crate) struct AttemptWithRollout {
    pub attempt: Attempt,
    pub leads: Option<Rollout>,
}

impl AttemptWithRollout {
    /// Whether further reports of the attempt change nothing.
    pub(crate) fn is_over(&self) -> bool {
        self.attempt.status.is_ended() || self.leads.as_ref().is_none_or(|rollout| rollout.status.is_finished())
    }
}

pub(crate) async fn find_attempt_with_rollout(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> Result<Option<AttemptWithRollout>> {
    let query = match attempt {
        AttemptRef::Id(attempt_id) => sqlx::query(concat!(
            "SELECT ",
            rollout_and_attempt!(),
            ", (SELECT MAX(sequence_id) FROM attempts WHERE rollout_id = $1) AS latest
             FROM attempts a JOIN rollouts r ON r.rollout_id = a.rollout_id
             WHERE a.rollout_id = $1 AND a.attempt_id = $2"
        ))
        .bind(rollout_id)
        .bind(attempt_id.as_str()),
        AttemptRef::Latest => sqlx::query(concat!(
            "SELECT ",
            rollout_and_attempt!(),
            ", a.sequence_id AS latest FROM attempts a JOIN rollouts r ON r.rollout_id = a.rollout_id
             WHERE a.rollout_id = $1 ORDER BY a.sequence_id DESC LIMIT 1"
        ))
        .bind(rollout_id),
    };
    let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
    let Some(attempt) = attempt_next_to_rollout(&row)? else { return Ok(None) };
    let is_latest = attempt.sequence_id == count::<u32>(&row, "latest")?;
    let leads = if is_latest { Some(rollout_from_row(&row)?) } else { None };
    Ok(Some(AttemptWithRollout { attempt, leads }))
}

/// As [`existing_attempt`], with the rollout that it leads.
pub(crate) async fn existing_attempt_with_rollout(
    connection: &mut AnyConnection,
    rollout_id: &str,
    attempt: &AttemptRef,
) -> Result<AttemptWithRollout> {
    match find_attempt_with_rollout(connection, rollout_id, attempt).await? {
        Some(found) => Ok(found),
        None => Err(no_such_attempt(connection, rollout_id, attempt).await),
    }
}

/// The rollout of an attempt that is its latest.
async fn rollout_led_by(connection: &mut AnyConnection, attempt: &Attempt) -> Result<Option<Rollout>> {
    let row = sqlx::query(
        "SELECT * FROM rollouts WHERE rollout_id = $1
             AND NOT EXISTS (SELECT 1 FROM attempts WHERE rollout_id = $1 AND sequence_id > $2)",
    )
    .bind(attempt.rollout_id.as_str())
    .bind(i64::from(attempt.sequence_id))
    .fetch_optional(connection)
    .await?;
    row.as_ref().map(rollout_from_row).transpose()
}

/// Changes an attempt and everything that follows it: its rollout and its worker.
pub(crate) async fn apply(write: &mut Write, attempt: Attempt, update: AttemptUpdate) -> Result<Attempt> {
    let leads = match update.status {
        Some(_) => rollout_led_by(write.connection(), &attempt).await?,
        None => None,
    };
    apply_update(write, AttemptWithRollout { attempt, leads }, update).await
}

pub(crate) async fn apply_update(
    write: &mut Write,
    found: AttemptWithRollout,
    update: AttemptUpdate,
) -> Result<Attempt> {
    let AttemptWithRollout { mut attempt, leads } = found;
    if update.last_heartbeat_time.is_some_and(|time| !time.is_finite()) {
        return Err(StoreError::invalid("last_heartbeat_time", "is not a finite number"));
    }
    write.rollout_changed(&attempt.rollout_id);
    let heartbeat = update.last_heartbeat_time;
    let before = reported_digest(&attempt);
    attempt.worker_id = update.worker_id.or(attempt.worker_id);
    attempt.last_heartbeat_time = heartbeat.or(attempt.last_heartbeat_time);
    let mut changed_metadata = None;
    if let Some(mut metadata) = update.metadata {
        keep_notes(&mut metadata, attempt.metadata.as_ref());
        changed_metadata = Some(ChangedMetadata::of(write.connection(), &attempt, &metadata).await?);
        attempt.metadata = Some(metadata);
    }
    if let Some(status) = update.status {
        attempt.status = status;
        attempt.end_time = status.is_ended().then(now);
        if status.is_ended() {
            write.attempt_ended(&attempt);
        }
    }
    let mut change = difference(before, reported_digest(&attempt));
    if let Some(metadata) = &changed_metadata {
        change = add(change, metadata.change);
    }
    sqlx::query(
        "UPDATE attempts SET status = $3, end_time = $4, worker_id = $5,
             last_heartbeat_time = COALESCE($6, last_heartbeat_time),
             heartbeat_checksum = COALESCE($7, heartbeat_checksum), metadata = COALESCE($8, metadata),
             revision = revision + 1, checksum = (checksum + $9) & $10
         WHERE rollout_id = $1 AND attempt_id = $2",
    )
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .bind(attempt.status.as_str())
    .bind(OptionalReal(attempt.end_time))
    .bind(optional_id("worker_id", attempt.worker_id.as_deref())?)
    .bind(OptionalReal(heartbeat))
    .bind(heartbeat.map(|time| heartbeat_checksum(&attempt.rollout_id, &attempt.attempt_id, time)))
    .bind(changed_metadata.map(|metadata| metadata.text))
    .bind(add(change, REVISION_WEIGHT))
    .bind(MASK)
    .execute(write.connection())
    .await?;
    if update.status.is_some() {
        worker_follows_attempt(write.connection(), &attempt).await?;
        if let Some(mut rollout) = leads {
            let status = propagate(attempt.status, attempt.sequence_id, &rollout.config);
            set_rollout_status(write, &mut rollout, status).await?;
        }
    }
    Ok(attempt)
}

/// What a server has noted is for nobody else to say or to take back.
fn keep_notes(metadata: &mut Object, before: Option<&Object>) {
    for key in AttemptNote::KEYS {
        metadata.remove(key);
        let noted = before.and_then(|before| before.get(key));
        noted.into_iter().for_each(|noted| drop(metadata.insert(key.to_owned(), noted.clone())));
    }
}

/// Writes an attempt's metadata alone.
pub(crate) async fn write_metadata(write: &mut Write, attempt: &Attempt) -> Result<()> {
    write.rollout_changed(&attempt.rollout_id);
    let Some(metadata) = &attempt.metadata else { return Ok(()) };
    let metadata = ChangedMetadata::of(write.connection(), attempt, metadata).await?;
    sqlx::query(
        "UPDATE attempts SET metadata = $3, checksum = (checksum + $4) & $5 WHERE rollout_id = $1 AND attempt_id = $2",
    )
    .bind(attempt.rollout_id.as_str())
    .bind(attempt.attempt_id.as_str())
    .bind(metadata.text)
    .bind(metadata.change)
    .bind(MASK)
    .execute(write.connection())
    .await?;
    Ok(())
}

/// What an update may change of an attempt's checksum, but for its metadata.
fn reported_digest(attempt: &Attempt) -> i64 {
    add(attempt_state(attempt.status, attempt.end_time), worker_digest(attempt.worker_id.as_deref()))
}

/// Metadata that replaces an attempt's.
struct ChangedMetadata {
    text: String,
    /// What this adds to the attempt's checksum.
    change: i64,
}

impl ChangedMetadata {
    async fn of(connection: &mut AnyConnection, attempt: &Attempt, metadata: &Object) -> Result<Self> {
        let text = to_json("metadata", metadata)?;
        // By the text that is there, which need not be the one that is written of what was read.
        let stored = sqlx::query("SELECT metadata FROM attempts WHERE rollout_id = $1 AND attempt_id = $2")
            .bind(attempt.rollout_id.as_str())
            .bind(attempt.attempt_id.as_str())
            .fetch_one(connection)
            .await?;
        let change = difference(metadata_digest(column(&stored, "metadata")?), metadata_digest(Some(&text)));
        Ok(Self { text, change })
    }
}
