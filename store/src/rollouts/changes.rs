//! Writing rollouts: inserting one, its fields, its status with its place in the queue.

use fulgurite_types::{NewRollout, Rollout, RolloutStatus, new_rollout_id};

use crate::checksums::MASK;
use crate::database::sql::{OptionalReal, checked_id, column, optional_id, to_json, to_optional_json};
use crate::database::writer::Write;
use crate::rollouts::rows::{find_rollout, run_and_step};
use crate::row_checksums::{RolloutColumns, difference, rollout_state};
use crate::{Result, StoreError};
use fulgurite_types::time::now;

pub(crate) fn validate(rollout: &NewRollout) -> Result<()> {
    if let Some(id) = &rollout.rollout_id
        && checked_id("rollout_id", id)?.is_empty()
    {
        return Err(StoreError::invalid("rollout_id", "must not be empty"));
    }
    rollout.config.as_ref().map_or(Ok(()), |config| validate_config(config.max_attempts))
}

pub(crate) fn validate_config(max_attempts: u32) -> Result<()> {
    if max_attempts == 0 {
        return Err(StoreError::invalid("config.max_attempts", "must be at least 1"));
    }
    Ok(())
}

/// A rollout's JSON, as its columns hold it.
struct RolloutTexts {
    input: String,
    config: String,
    metadata: Option<String>,
}

impl RolloutTexts {
    fn of(rollout: &Rollout) -> Result<Self> {
        Ok(Self {
            input: to_json("input", &rollout.input)?,
            config: to_json("config", &rollout.config)?,
            metadata: to_optional_json("metadata", rollout.metadata.as_ref())?,
        })
    }

    fn columns<'c>(&'c self, rollout: &'c Rollout) -> RolloutColumns<'c> {
        RolloutColumns {
            rollout_id: &rollout.rollout_id,
            input: &self.input,
            start_time: rollout.start_time,
            end_time: rollout.end_time,
            mode: rollout.mode.map(|mode| mode.as_str()),
            resources_id: rollout.resources_id.as_deref(),
            status: rollout.status.as_str(),
            config: &self.config,
            metadata: self.metadata.as_deref(),
        }
    }
}

/// Stores a rollout unless its id is known; gives what is stored, and whether it is new.
pub(crate) async fn insert_rollout(
    write: &mut Write,
    new: NewRollout,
    status: RolloutStatus,
) -> Result<(Rollout, bool)> {
    if let Some(id) = &new.rollout_id
        && let Some(stored) = find_rollout(write.connection(), id).await?
    {
        return Ok((stored, false));
    }
    let mut rollout = Rollout {
        rollout_id: new.rollout_id.unwrap_or_else(new_rollout_id),
        input: new.input,
        start_time: now(),
        end_time: None,
        mode: new.mode,
        resources_id: new.resources_id,
        status,
        config: new.config.unwrap_or_default(),
        metadata: Some(new.metadata.unwrap_or_default()),
    };
    let (run_id, step) = run_and_step(rollout.metadata.as_ref());
    let texts = RolloutTexts::of(&rollout)?;
    let row = sqlx::query(
        "INSERT INTO rollouts (rollout_id, input, start_time, mode, resources_id, status, config, metadata, run_id,
             step, queue_position, checksum)
         VALUES ($1, $2, $3, $4,
             COALESCE($5, (SELECT resources_id FROM resources ORDER BY update_time DESC, position DESC LIMIT 1)),
             $6, $7, $8, $9, $10,
             CASE WHEN $11 = 1 THEN (SELECT COALESCE(MAX(queue_position), 0) + 1 FROM rollouts WHERE queue_position > 0) END,
             ($12 + CASE WHEN $5 IS NOT NULL OR NOT EXISTS (SELECT 1 FROM resources) THEN 0
                 ELSE (SELECT id_checksum FROM resources ORDER BY update_time DESC, position DESC LIMIT 1) END) & $13)
         RETURNING resources_id",
    )
    .bind(checked_id("rollout_id", &rollout.rollout_id)?)
    .bind(texts.input.as_str())
    .bind(rollout.start_time)
    .bind(rollout.mode.map(|mode| mode.as_str()))
    .bind(optional_id("resources_id", rollout.resources_id.as_deref())?)
    .bind(status.as_str())
    .bind(texts.config.as_str())
    .bind(texts.metadata.as_deref())
    .bind(optional_id("metadata.run_id", run_id)?)
    .bind(step)
    .bind(i64::from(status.is_queued()))
    .bind(texts.columns(&rollout).checksum())
    .bind(MASK)
    .fetch_one(write.connection())
    .await?;
    rollout.resources_id = column(&row, "resources_id")?;
    if status.is_queued() {
        write.rollout_was_queued();
    }
    Ok((rollout, true))
}

/// Writes the fields of a rollout that have no rules of their own.
pub(crate) async fn store_fields(write: &mut Write, rollout: &Rollout) -> Result<()> {
    write.rollout_changed(&rollout.rollout_id);
    let (run_id, step) = run_and_step(rollout.metadata.as_ref());
    let texts = RolloutTexts::of(rollout)?;
    // By the text that is there, which need not be the one that is written of what was read.
    let stored = sqlx::query("SELECT * FROM rollouts WHERE rollout_id = $1")
        .bind(rollout.rollout_id.as_str())
        .fetch_one(write.connection())
        .await?;
    let change = difference(RolloutColumns::from_row(&stored)?.checksum(), texts.columns(rollout).checksum());
    sqlx::query(
        "UPDATE rollouts SET input = $2, mode = $3, resources_id = $4, config = $5, metadata = $6, run_id = $7,
             step = $8, checksum = (checksum + $9) & $10
         WHERE rollout_id = $1",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(texts.input.as_str())
    .bind(rollout.mode.map(|mode| mode.as_str()))
    .bind(optional_id("resources_id", rollout.resources_id.as_deref())?)
    .bind(texts.config.as_str())
    .bind(texts.metadata.as_deref())
    .bind(optional_id("metadata.run_id", run_id)?)
    .bind(step)
    .bind(change)
    .bind(MASK)
    .execute(write.connection())
    .await?;
    Ok(())
}

/// Sets a rollout's status, and with it its end and its place in the queue. The same status again changes nothing.
pub(crate) async fn set_rollout_status(write: &mut Write, rollout: &mut Rollout, status: RolloutStatus) -> Result<()> {
    if rollout.status == status {
        return Ok(());
    }
    let before = rollout_state(rollout.status, rollout.end_time);
    rollout.status = status;
    rollout.end_time = status.is_finished().then(now);
    write.rollout_changed(&rollout.rollout_id);
    sqlx::query(
        "UPDATE rollouts SET status = $2, end_time = $3,
             queue_position = CASE WHEN $4 = 1
                 THEN COALESCE(queue_position, (SELECT COALESCE(MAX(queue_position), 0) + 1 FROM rollouts WHERE queue_position > 0)) END,
             checksum = (checksum + $5) & $6
         WHERE rollout_id = $1",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(status.as_str())
    .bind(OptionalReal(rollout.end_time))
    .bind(i64::from(status.is_queued()))
    .bind(difference(before, rollout_state(status, rollout.end_time)))
    .bind(MASK)
    .execute(write.connection())
    .await?;
    if status.is_queued() {
        write.rollout_was_queued();
    }
    if status.is_finished() {
        rollout_finished(write, &rollout.rollout_id).await?;
    }
    Ok(())
}

/// Gives a rollout its place among those that have finished, unless it has one already.
async fn rollout_finished(write: &mut Write, rollout_id: &str) -> Result<()> {
    sqlx::query(
        "INSERT INTO completions (position, rollout_id)
         SELECT COALESCE(MAX(position), 0) + 1, $1 FROM completions WHERE 1 = 1
         ON CONFLICT (rollout_id) DO NOTHING",
    )
    .bind(rollout_id)
    .execute(write.connection())
    .await?;
    write.rollout_finished();
    Ok(())
}
