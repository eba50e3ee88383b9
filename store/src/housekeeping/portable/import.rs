//! A store made again from the records of an archive.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_types::{
    ArchiveRecord, ArchivedCheckpoint, ArchivedGatewayRollout, ArchivedGeneration, ArchivedRollout, ArchivedUse,
    Attempt, AttemptRef, Generation, Imported, NewGeneration, Object, ResourcesUpdate, Run, Span, Step, Worker,
};
use sqlx::AnyConnection;

use crate::database::sql::{
    OptionalReal, checked_id, optional_id, optional_plain, plain, to_integer, to_json, to_optional_json,
};
use crate::database::writer::Write;
use crate::housekeeping::Housekeeping;
use crate::recording::one_by_one::import as import_call;
use crate::rollouts::attempts::rows::{existing_attempt, new_attempt_name};
use crate::rollouts::rows::{existing_rollout, run_and_step};
use crate::row_checksums::{AttemptColumns, RolloutColumns, heartbeat_checksum, resources_digest};
use crate::runs::record::require_run;
use crate::runs::teacher_logprobs;
use crate::spans::writing::{insert_span, raise_sequence_id};
use crate::{Result, StoreError};

impl Housekeeping {
    /// Stores records of an archive in one transaction, all or none. Existing ones are left as they are and counted. A
    /// record that cannot be stored is named by its place among these.
    pub async fn import(&self, records: Vec<ArchiveRecord>) -> std::result::Result<Imported, (usize, StoreError)> {
        let at = Arc::new(AtomicUsize::new(0));
        let place = Arc::clone(&at);
        let imported = self.database.write(move |write| {
            Box::pin(async move {
                let mut imported = Imported::default();
                for (index, record) in records.into_iter().enumerate() {
                    at.store(index, Ordering::Relaxed);
                    match import(write, record).await? {
                        true => imported.new += 1,
                        false => imported.known += 1,
                    }
                }
                Ok(imported)
            })
        });
        imported.await.map_err(|error| (place.load(Ordering::Relaxed), error))
    }
}

/// Stores a record; whether it was not there before.
async fn import(write: &mut Write, record: ArchiveRecord) -> Result<bool> {
    match record {
        ArchiveRecord::Run(run) => import_run(write.connection(), run).await,
        ArchiveRecord::Step(step) => import_step(write.connection(), step).await,
        ArchiveRecord::Checkpoint(checkpoint) => import_checkpoint(write.connection(), checkpoint).await,
        ArchiveRecord::Resources(resources) => import_resources(write.connection(), resources).await,
        ArchiveRecord::Worker(worker) => import_worker(write.connection(), worker).await,
        ArchiveRecord::Rollout(rollout) => import_rollout(write, rollout).await,
        ArchiveRecord::Attempt(attempt) => import_attempt(write.connection(), attempt).await,
        ArchiveRecord::GatewayRollout(known) => import_gateway_rollout(write.connection(), known).await,
        ArchiveRecord::Span(span) => import_span(write, &span).await,
        ArchiveRecord::Generation(archived) => import_generation(write, *archived).await,
        ArchiveRecord::GenerationUse(used) => import_use(write.connection(), used).await,
        ArchiveRecord::TeacherLogprobs(of_teacher) => teacher_logprobs::import(write.connection(), of_teacher).await,
    }
}

async fn import_run(connection: &mut AnyConnection, run: Run) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO runs (run_id, name, config, seed, start_time, allowed_steps) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (run_id) DO NOTHING",
    )
    .bind(checked_id("run_id", &run.run_id)?)
    .bind(checked_id("name", &run.name)?)
    .bind(to_json("config", &run.config)?)
    .bind(run.seed.cast_signed())
    .bind(run.start_time)
    .bind(run.allowed_steps.map(|steps| to_integer("allowed_steps", steps)).transpose()?)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

async fn import_step(connection: &mut AnyConnection, step: Step) -> Result<bool> {
    require_run(connection, &step.run_id).await?;
    let inserted = sqlx::query(
        "INSERT INTO steps (run_id, step, time, metrics, weights_version) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (run_id, step) DO NOTHING",
    )
    .bind(step.run_id.as_str())
    .bind(to_integer("step", step.step)?)
    .bind(step.time)
    .bind(to_json("metrics", &step.metrics)?)
    .bind(to_integer("weights_version", step.weights_version)?)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

async fn import_checkpoint(connection: &mut AnyConnection, checkpoint: ArchivedCheckpoint) -> Result<bool> {
    let step = to_integer("step", checkpoint.step)?;
    let known = sqlx::query("SELECT 1 FROM steps WHERE run_id = $1 AND step = $2")
        .bind(checkpoint.run_id.as_str())
        .bind(step)
        .fetch_optional(&mut *connection)
        .await?;
    if known.is_none() {
        return Err(StoreError::not_found("step", &format!("{step} of run {}", checkpoint.run_id)));
    }
    let inserted = sqlx::query(
        "INSERT INTO checkpoints (run_id, step, directory, state) VALUES ($1, $2, $3, $4)
         ON CONFLICT (run_id, step) DO NOTHING",
    )
    .bind(checkpoint.run_id.as_str())
    .bind(step)
    .bind(plain("directory", &checkpoint.directory)?)
    .bind(to_json("state", &checkpoint.state)?)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

async fn import_resources(connection: &mut AnyConnection, update: ResourcesUpdate) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO resources (resources_id, create_time, update_time, version, resources, id_checksum)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (resources_id) DO NOTHING",
    )
    .bind(checked_id("resources_id", &update.resources_id)?)
    .bind(update.create_time)
    .bind(update.update_time)
    .bind(i64::from(update.version))
    .bind(to_json("resources", &update.resources)?)
    .bind(resources_digest(Some(&update.resources_id)))
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

async fn import_worker(connection: &mut AnyConnection, worker: Worker) -> Result<bool> {
    let inserted = sqlx::query(
        "INSERT INTO workers (worker_id, status, heartbeat_stats, last_heartbeat_time, last_dequeue_time,
             last_busy_time, last_idle_time, current_rollout_id, current_attempt_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (worker_id) DO NOTHING",
    )
    .bind(checked_id("worker_id", &worker.worker_id)?)
    .bind(worker.status.as_str())
    .bind(to_optional_json("heartbeat_stats", worker.heartbeat_stats.as_ref())?)
    .bind(OptionalReal(worker.last_heartbeat_time))
    .bind(OptionalReal(worker.last_dequeue_time))
    .bind(OptionalReal(worker.last_busy_time))
    .bind(OptionalReal(worker.last_idle_time))
    .bind(optional_id("current_rollout_id", worker.current_rollout_id.as_deref())?)
    .bind(optional_id("current_attempt_id", worker.current_attempt_id.as_deref())?)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

/// A queued rollout keeps its place in the queue if the place is free, and goes to the end otherwise.
async fn import_rollout(write: &mut Write, archived: ArchivedRollout) -> Result<bool> {
    let ArchivedRollout { rollout, queue_position, last_sequence_id, completion_position } = archived;
    if rollout.status.is_queued() != queue_position.is_some() {
        return Err(StoreError::invalid("queue_position", "is there exactly while a rollout is queuing or requeuing"));
    }
    if rollout.status.is_finished() != rollout.end_time.is_some() {
        return Err(StoreError::invalid("end_time", "is there exactly when a rollout has finished"));
    }
    let (run_id, step) = run_and_step(rollout.metadata.as_ref());
    let (input, config) = (to_json("input", &rollout.input)?, to_json("config", &rollout.config)?);
    let metadata = to_optional_json("metadata", rollout.metadata.as_ref())?;
    let columns = RolloutColumns {
        rollout_id: &rollout.rollout_id,
        input: &input,
        start_time: rollout.start_time,
        end_time: rollout.end_time,
        mode: rollout.mode.map(|mode| mode.as_str()),
        resources_id: rollout.resources_id.as_deref(),
        status: rollout.status.as_str(),
        config: &config,
        metadata: metadata.as_deref(),
    };
    let inserted = sqlx::query(
        "INSERT INTO rollouts (rollout_id, input, start_time, end_time, mode, resources_id, status, config, metadata,
             run_id, step, queue_position, checksum)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
             CASE WHEN EXISTS (SELECT 1 FROM rollouts WHERE queue_position = $12)
                 THEN (SELECT MAX(queue_position) + 1 FROM rollouts) ELSE $12 END, $13)
         ON CONFLICT (rollout_id) DO NOTHING",
    )
    .bind(checked_id("rollout_id", &rollout.rollout_id)?)
    .bind(input.as_str())
    .bind(rollout.start_time)
    .bind(OptionalReal(rollout.end_time))
    .bind(rollout.mode.map(|mode| mode.as_str()))
    .bind(optional_id("resources_id", rollout.resources_id.as_deref())?)
    .bind(rollout.status.as_str())
    .bind(config.as_str())
    .bind(metadata.as_deref())
    .bind(optional_id("metadata.run_id", run_id)?)
    .bind(step)
    .bind(queue_position)
    .bind(columns.checksum())
    .execute(write.connection())
    .await?
    .rows_affected();
    if inserted == 0 {
        return Ok(false);
    }
    if last_sequence_id > 0 {
        raise_sequence_id(write, &rollout.rollout_id, last_sequence_id).await?;
    }
    if let Some(position) = completion_position {
        import_completion(write.connection(), &rollout.rollout_id, position).await?;
    }
    if rollout.status.is_queued() {
        write.rollout_was_queued();
    }
    Ok(true)
}

/// A rollout keeps its place among those that have finished if the place is free, and goes to the end otherwise.
async fn import_completion(connection: &mut AnyConnection, rollout_id: &str, position: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO completions (position, rollout_id)
         VALUES (CASE WHEN EXISTS (SELECT 1 FROM completions WHERE position = $2)
             THEN (SELECT MAX(position) + 1 FROM completions) ELSE $2 END, $1)",
    )
    .bind(rollout_id)
    .bind(position)
    .execute(connection)
    .await?;
    Ok(())
}

async fn import_gateway_rollout(connection: &mut AnyConnection, known: ArchivedGatewayRollout) -> Result<bool> {
    existing_rollout(connection, &known.rollout_id).await?;
    let inserted = sqlx::query(
        "INSERT INTO gateway_rollouts (rollout_id, local_config, k8s_config, k8s_job_name, last_attempt_id,
             error_message, version, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (rollout_id) DO NOTHING",
    )
    .bind(known.rollout_id.as_str())
    .bind(to_optional_json("local_config", known.local_config.as_ref())?)
    .bind(to_optional_json("k8s_config", known.k8s_config.as_ref())?)
    .bind(optional_id("k8s_job_name", known.k8s_job_name.as_deref())?)
    .bind(optional_id("last_attempt_id", known.last_attempt_id.as_deref())?)
    .bind(optional_plain("error_message", known.error_message.as_deref())?)
    .bind(known.version)
    .bind(known.updated_at)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

async fn import_attempt(connection: &mut AnyConnection, attempt: Attempt) -> Result<bool> {
    if attempt.status.is_ended() != attempt.end_time.is_some() {
        return Err(StoreError::invalid("end_time", "is there exactly when an attempt has ended"));
    }
    existing_rollout(connection, &attempt.rollout_id).await?;
    let metadata = to_optional_json("metadata", attempt.metadata.as_ref())?;
    let columns = AttemptColumns {
        rollout_id: &attempt.rollout_id,
        attempt_id: &attempt.attempt_id,
        sequence_id: i64::from(attempt.sequence_id),
        start_time: attempt.start_time,
        end_time: attempt.end_time,
        status: attempt.status.as_str(),
        worker_id: attempt.worker_id.as_deref(),
        metadata: metadata.as_deref(),
        grader: attempt.grader.as_deref(),
        lease_end: None,
        revision: 0,
    };
    let heartbeat =
        attempt.last_heartbeat_time.map(|time| heartbeat_checksum(&attempt.rollout_id, &attempt.attempt_id, time));
    let inserted = sqlx::query(
        "INSERT INTO attempts (rollout_id, attempt_id, sequence_id, start_time, end_time, status, worker_id,
             last_heartbeat_time, metadata, grader, span_count, generation_count, digest, checksum, heartbeat_checksum)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, 0, $11, $12) ON CONFLICT (rollout_id, attempt_id) DO NOTHING",
    )
    .bind(attempt.rollout_id.as_str())
    .bind(new_attempt_name(&attempt.attempt_id)?)
    .bind(i64::from(attempt.sequence_id))
    .bind(attempt.start_time)
    .bind(OptionalReal(attempt.end_time))
    .bind(attempt.status.as_str())
    .bind(optional_id("worker_id", attempt.worker_id.as_deref())?)
    .bind(OptionalReal(attempt.last_heartbeat_time))
    .bind(metadata.as_deref())
    .bind(optional_id("grader", attempt.grader.as_deref())?)
    .bind(columns.checksum())
    .bind(heartbeat)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

async fn require_attempt(connection: &mut AnyConnection, span: &Span) -> Result<()> {
    let attempt = AttemptRef::Id(span.attempt_id.clone());
    existing_attempt(connection, &span.rollout_id, &attempt).await.map(|_| ())
}

async fn import_span(write: &mut Write, span: &Span) -> Result<bool> {
    require_attempt(write.connection(), span).await?;
    let new = insert_span(write, span).await?;
    if new {
        raise_sequence_id(write, &span.rollout_id, span.sequence_id).await?;
    }
    Ok(new)
}

async fn import_generation(write: &mut Write, archived: ArchivedGeneration) -> Result<bool> {
    let ArchivedGeneration { generation, span } = archived;
    let same = (&generation.rollout_id, &generation.attempt_id, &generation.span_id);
    if same != (&span.rollout_id, &span.attempt_id, &span.span_id) {
        return Err(StoreError::invalid("span", "is not that of the generation"));
    }
    require_attempt(write.connection(), &span).await?;
    import_call(write, as_recorded(generation, span.attributes.clone()), span).await
}

/// A generation as it was given to the store, with the attributes of its span.
fn as_recorded(generation: Generation, attributes: Object) -> NewGeneration {
    NewGeneration {
        generation_id: generation.generation_id,
        rollout_id: generation.rollout_id,
        attempt_id: generation.attempt_id,
        name: generation.name,
        trace_id: generation.trace_id,
        span_id: generation.span_id,
        start_time: generation.start_time,
        end_time: generation.end_time,
        attributes,
        model: generation.model,
        prompt_tokens: generation.prompt_tokens,
        sampled_tokens: generation.sampled_tokens,
        logprobs: generation.logprobs,
        stop_reason: generation.stop_reason,
        weights_versions: generation.weights_versions,
        sampling: generation.sampling,
        seed: generation.seed,
        renderer: generation.renderer,
        tokenizer: generation.tokenizer,
        request_digest: generation.request_digest,
        branch_reason: generation.branch_reason,
        client_disconnected: generation.client_disconnected,
        defect: generation.defect,
    }
}

async fn import_use(connection: &mut AnyConnection, used: ArchivedUse) -> Result<bool> {
    require_run(connection, &used.run_id).await?;
    let known = sqlx::query("SELECT 1 FROM generations WHERE generation_id = $1")
        .bind(used.generation_id.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    if known.is_none() {
        return Err(StoreError::not_found("generation", &used.generation_id));
    }
    let inserted = sqlx::query(
        "INSERT INTO generation_uses (run_id, generation_id, cause, step, tokens) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (run_id, generation_id, cause) DO NOTHING",
    )
    .bind(used.run_id.as_str())
    .bind(used.generation_id.as_str())
    .bind(plain("cause", used.cause.as_str())?)
    .bind(used.step)
    .bind(to_integer("tokens", used.tokens)?)
    .execute(connection)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

#[cfg(test)]
mod tests;
