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
use crate::recording::one_by_one::import as import_call;
use crate::rollouts::attempts::rows::{existing_attempt, new_attempt_name};
use crate::rollouts::rows::{existing_rollout, run_and_step};
use crate::row_checksums::{AttemptColumns, RolloutColumns, heartbeat_checksum, resources_digest};
use crate::runs::record::require_run;
use crate::runs::teacher_logprobs;
use crate::spans::writing::{insert_span, raise_sequence_id};
use crate::{Result, Store, StoreError};

impl Store {
    /// Stores records of an archive in one transaction, all or none. Existing ones are left as they are and counted. A
    /// record that cannot be stored is named by its place among these.
    pub async fn import(&self, records: Vec<ArchiveRecord>) -> std::result::Result<Imported, (usize, StoreError)> {
        let at = Arc::new(AtomicUsize::new(0));
        let place = Arc::clone(&at);
        let imported = self.write(move |write| {
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
mod tests {
    use fulgurite_types::{
        ArchiveScope, AttemptStatus, AttemptUpdate, CheckpointRecord, GenerationFilter, GenerationUse, ListFilter,
        NewGatewayRollout, NewRollout, NewRun, Page, Part, Reward, RolloutFilter, RolloutMode, SpanFilter, StepRecord,
        TeacherLogprobs, TextFilter, WorkerFilter,
    };
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{TestStore, cases, generation};

    async fn archive(store: &Store) -> Vec<ArchiveRecord> {
        let mut export = store.export(ArchiveScope::All, ListFilter::default()).await.unwrap();
        let mut records = Vec::new();
        loop {
            let next = export.next().await.unwrap();
            if next.is_empty() {
                return records;
            }
            // As a file has them.
            records.extend(
                next.iter().map(|record| serde_json::from_str::<ArchiveRecord>(&json!(record).to_string()).unwrap()),
            );
        }
    }

    /// Everything that a store can be queried for.
    async fn everything(store: &Store) -> Vec<Value> {
        let rollouts = store.query_rollouts(&RolloutFilter::default()).await.unwrap();
        let every = Part::Newest { limit: None, sort_by: None };
        let filter = ListFilter::default();
        let mut all = vec![json!(rollouts)];
        for (rollout, _) in &rollouts.items {
            let spans = SpanFilter { rollout_id: rollout.rollout_id.clone(), ..SpanFilter::default() };
            all.push(json!(store.query_spans(&spans).await.unwrap()));
            all.push(json!(store.attempts(&rollout.rollout_id).await.unwrap()));
            all.push(json!(format!("{:?}", store.gateway_rollout(&rollout.rollout_id).await.unwrap())));
        }
        all.push(json!(store.generations(&GenerationFilter::default()).await.unwrap()));
        all.push(json!(store.list_spans(&filter, &every).await.unwrap().items));
        all.push(json!(store.query_workers(&WorkerFilter::default()).await.unwrap()));
        all.push(json!(store.query_resources(&TextFilter::default(), &Page::default()).await.unwrap()));
        for run in store.runs().await.unwrap() {
            all.push(json!(run));
            all.push(json!(store.steps(&run.run_id).await.unwrap()));
            all.push(json!(store.checkpoints(&run.run_id).await.unwrap()));
            all.push(json!(store.token_ledger(&run.run_id).await.unwrap()));
        }
        let ids = ["g0", "g1", "g2", "g3"];
        all.push(json!(store.teacher_logprobs(&ids).await.unwrap()));
        let counters = "SELECT rollout_id, value FROM sequence_counters WHERE value > 0 ORDER BY 1";
        let queue = "SELECT rollout_id, queue_position FROM rollouts WHERE queue_position IS NOT NULL ORDER BY 2";
        let done = "SELECT rollout_id, position FROM completions ORDER BY 2";
        for sql in [counters, queue, done] {
            all.push(json!(format!("{:?}", store.query_sql(sql).await.unwrap())));
        }
        all
    }

    /// A store with something in every table.
    async fn full_store() -> TestStore {
        let store = TestStore::new().await;
        let run = |run_id: &str| NewRun {
            run_id: run_id.into(),
            name: "ä".into(),
            config: json!({"a": [1, null]}),
            seed: u64::MAX,
        };
        store.create_run(run("one")).await.unwrap();
        store.create_run(run("two")).await.unwrap();
        let llm = json!({"llm": {"resource_type": "llm", "endpoint": "http://127.0.0.1", "model": "tiny"}});
        store.update_resources(Some("rs-1"), llm.as_object().cloned().unwrap()).await.unwrap();
        let queued = |id: &str| NewRollout {
            rollout_id: Some(id.into()),
            input: json!({"n": 0.1}),
            metadata: json!({"run_id": "one", "step": 2}).as_object().cloned(),
            ..NewRollout::default()
        };
        store.enqueue_rollouts(vec![queued("z"), queued("y"), queued("x")]).await.unwrap();
        let claimed = store.dequeue_rollouts(2, Some("worker"), std::time::Duration::ZERO).await.unwrap();
        for (index, prompt) in [&[1, 2][..], &[1, 2, 100, 9], &[1, 2, 100, 8], &[5]].iter().enumerate() {
            let mut new = generation(&format!("g{index}"), &claimed[index / 3], prompt, &[100, u32::MAX]);
            for message in 0..=index {
                new.attributes.insert(format!("gen_ai.prompt.{message}.role"), json!("user"));
                new.attributes.insert(format!("gen_ai.prompt.{message}.content"), json!(format!("message {message}")));
            }
            new.logprobs = match index {
                1 => None,
                3 => Some(vec![f32::NAN, 0.0]),
                _ => Some(vec![-0.1, -1e-45]),
            };
            store.record_generation(new).await.unwrap();
            store
                .add_generation_reward(&claimed[index / 3].rollout.rollout_id, &format!("g{index}"), Reward::new(0.1))
                .await
                .unwrap();
        }
        store.set_client_disconnected("g2", true).await.unwrap();
        store.next_sequence_id("z").await.unwrap();
        store.update_attempt("z", "latest", AttemptUpdate::status(AttemptStatus::Succeeded)).await.unwrap();
        let uses = vec![GenerationUse { generation_id: "g0".into(), cause: "trained".into(), tokens: 2 }];
        let of_teacher = |generation_id: &str, logprobs: Vec<f32>| TeacherLogprobs {
            generation_id: generation_id.into(),
            teacher: "large".into(),
            logprobs,
        };
        let teacher_logprobs = vec![of_teacher("g0", vec![-0.25, -1e-45]), of_teacher("g1", vec![-0.5, 0.0])];
        let checkpoint = CheckpointRecord { directory: "/tmp/x".into(), state: json!({"cursor": 3}) };
        store
            .record_step(StepRecord {
                run_id: "one".into(),
                step: 1,
                metrics: json!({"loss": 0.3}),
                weights_version: 7,
                uses,
                teacher_logprobs,
                checkpoint: Some(checkpoint),
            })
            .await
            .unwrap();
        let gateway = NewGatewayRollout {
            rollout_id: Some("w".into()),
            input: json!({"t": 1}),
            mode: RolloutMode::Val,
            timeout_seconds: 5.0,
            local: Some(json!({"command": "x"})),
            k8s: None,
            metadata: Object::new(),
        };
        store.create_gateway_rollouts(vec![gateway]).await.unwrap();
        store
    }

    #[tokio::test]
    async fn a_store_is_made_again_from_its_archive() {
        let store = full_store().await;
        let records = archive(&store).await;
        let copy = TestStore::new().await;
        let number = records.len() as u64;
        assert_eq!(copy.import(records.clone()).await.unwrap(), Imported { new: number, known: 0 });
        let (before, after) = (everything(&store).await, everything(&copy).await);
        assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before, after);
        }
        assert_eq!(archive(&copy).await, records);
        assert_eq!(copy.check(&mut |_| {}).await.unwrap(), 0);
        // Again: everything is known, and nothing changes.
        assert_eq!(copy.import(records).await.unwrap(), Imported { new: 0, known: number });
        assert_eq!(everything(&copy).await, after);
    }

    #[tokio::test]
    async fn what_is_there_already_stays_as_it_is() {
        let store = full_store().await;
        let records = archive(&store).await;
        let other = TestStore::new().await;
        let mine = NewRollout { rollout_id: Some("z".into()), input: json!("mine"), ..NewRollout::default() };
        other.enqueue_rollouts(vec![mine, NewRollout::default()]).await.unwrap();
        let imported = other.import(records).await.unwrap();
        assert_eq!(imported.known, 1);
        assert_eq!(other.get_rollout("z").await.unwrap().unwrap().0.input, json!("mine"));
        // Its place in the queue was taken.
        let order = other.dequeue_rollouts(9, None, std::time::Duration::ZERO).await.unwrap();
        assert!(order.iter().any(|rollout| rollout.rollout.rollout_id == "x"));
    }

    #[tokio::test]
    async fn all_records_are_stored_or_none_and_the_bad_one_is_named() {
        let store = full_store().await;
        let mut records = archive(&store).await;
        let first_attempt = records.iter().position(|record| matches!(record, ArchiveRecord::Attempt(_))).unwrap();
        if let ArchiveRecord::Attempt(attempt) = &mut records[first_attempt] {
            attempt.rollout_id = "nobody".into();
        }
        let copy = TestStore::new().await;
        let (index, error) = copy.import(records).await.unwrap_err();
        assert_eq!((index, error.to_string()), (first_attempt, "rollout not found: nobody".to_owned()));
        assert_eq!(archive(&copy).await, []);
    }

    #[tokio::test]
    async fn an_archive_is_narrowed_to_rollouts() {
        let store = full_store().await;
        let filter = ListFilter { rollout_id_in: Some(vec!["y".into()]), ..ListFilter::default() };
        let mut export = store.export(ArchiveScope::Generations, filter).await.unwrap();
        let records = export.next().await.unwrap();
        let [ArchiveRecord::Generation(archived)] = &records[..] else { panic!("{records:?}") };
        assert_eq!(archived.generation.generation_id, "g3");
        assert_eq!(export.next().await.unwrap(), []);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
        #[test]
        fn every_conversation_is_made_again_token_for_token(
            calls in prop::collection::vec((any::<prop::sample::Index>(), prop::collection::vec(0u32..3, 0..4), prop::collection::vec(any::<f32>(), 0..4)), 1..12),
        ) {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let (store, copy) = (TestStore::new().await, TestStore::new().await);
                let attempted = store.start().await;
                let mut contexts: Vec<Vec<u32>> = vec![Vec::new()];
                for (number, (from, new, logprobs)) in calls.iter().enumerate() {
                    let prompt = [from.get(&contexts).as_slice(), new].concat();
                    let sampled: Vec<u32> = logprobs.iter().map(|logprob| logprob.to_bits() % 3).collect();
                    let mut new = generation(&number.to_string(), &attempted, &prompt, &sampled);
                    new.logprobs = Some(logprobs.clone());
                    store.record_generation(new).await.unwrap();
                    contexts.push([prompt, sampled].concat());
                }
                copy.import(archive(&store).await).await.unwrap();
                let (before, after) = (
                    store.generations(&GenerationFilter::default()).await.unwrap(),
                    copy.generations(&GenerationFilter::default()).await.unwrap(),
                );
                assert_eq!(before, after);
                let bits = |generations: &[fulgurite_types::Generation]| -> Vec<u32> {
                    generations.iter().flat_map(|g| g.logprobs.iter().flatten().map(|logprob| logprob.to_bits())).collect()
                };
                assert_eq!(bits(&before), bits(&after));
            });
        }
    }
}
