//! Writing rollouts: inserting one, its fields, its status with its place in the queue.

use fulgurite_types::{NewRollout, Rollout, RolloutStatus, new_rollout_id};

use crate::database::clock::now;
use crate::database::sql::{OptionalReal, column, optional_plain, plain, to_json, to_optional_json};
use crate::database::writer::Write;
use crate::rollouts::rows::{find_rollout, run_and_step};
use crate::{Result, StoreError};

pub(crate) fn validate(rollout: &NewRollout) -> Result<()> {
    if let Some(id) = &rollout.rollout_id
        && plain("rollout_id", id)?.is_empty()
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
    let row = sqlx::query(
        "INSERT INTO rollouts (rollout_id, input, start_time, mode, resources_id, status, config, metadata, run_id,
             step, queue_position)
         VALUES ($1, $2, $3, $4,
             COALESCE($5, (SELECT resources_id FROM resources ORDER BY update_time DESC, position DESC LIMIT 1)),
             $6, $7, $8, $9, $10,
             CASE WHEN $11 = 1 THEN (SELECT COALESCE(MAX(queue_position), 0) + 1 FROM rollouts WHERE queue_position > 0) END)
         RETURNING resources_id",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(to_json("input", &rollout.input)?)
    .bind(rollout.start_time)
    .bind(rollout.mode.map(|mode| mode.as_str()))
    .bind(optional_plain("resources_id", rollout.resources_id.as_deref())?)
    .bind(status.as_str())
    .bind(to_json("config", &rollout.config)?)
    .bind(to_optional_json("metadata", rollout.metadata.as_ref())?)
    .bind(optional_plain("metadata.run_id", run_id)?)
    .bind(step)
    .bind(i64::from(status.is_queued()))
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
    sqlx::query(
        "UPDATE rollouts SET input = $2, mode = $3, resources_id = $4, config = $5, metadata = $6, run_id = $7,
             step = $8
         WHERE rollout_id = $1",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(to_json("input", &rollout.input)?)
    .bind(rollout.mode.map(|mode| mode.as_str()))
    .bind(optional_plain("resources_id", rollout.resources_id.as_deref())?)
    .bind(to_json("config", &rollout.config)?)
    .bind(to_optional_json("metadata", rollout.metadata.as_ref())?)
    .bind(optional_plain("metadata.run_id", run_id)?)
    .bind(step)
    .execute(write.connection())
    .await?;
    Ok(())
}

/// Sets a rollout's status, and with it its end and its place in the queue. The same status again changes nothing.
pub(crate) async fn set_rollout_status(write: &mut Write, rollout: &mut Rollout, status: RolloutStatus) -> Result<()> {
    if rollout.status == status {
        return Ok(());
    }
    rollout.status = status;
    rollout.end_time = status.is_finished().then(now);
    write.rollout_changed(&rollout.rollout_id);
    sqlx::query(
        "UPDATE rollouts SET status = $2, end_time = $3,
             queue_position = CASE WHEN $4 = 1
                 THEN COALESCE(queue_position, (SELECT COALESCE(MAX(queue_position), 0) + 1 FROM rollouts WHERE queue_position > 0)) END
         WHERE rollout_id = $1",
    )
    .bind(rollout.rollout_id.as_str())
    .bind(status.as_str())
    .bind(OptionalReal(rollout.end_time))
    .bind(i64::from(status.is_queued()))
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
