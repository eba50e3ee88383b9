//! Training runs: their steps and checkpoints, and what became of every sampled token.

use std::collections::HashMap;

use fulgurite_types::{
    Checkpoint, CheckpointRecord, GenerationUse, LedgerRow, NewRun, RolloutStatus, Run, Step, StepRecord, TokenUse,
    UntrainedCause,
};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};

use crate::database::sql::{Sql, checked_id, column, count, json, plain, to_integer, to_json, word};
use crate::database::writer::Write;
use crate::rollouts::changes::set_rollout_status;
use crate::rollouts::rows::rollout_from_row;
use crate::runs::Runs;
use crate::runs::teacher_logprobs;
use crate::{Result, StoreError};
use fulgurite_types::time::now;

/// What a use becomes when its step is undone.
const AFTER_LAST_CHECKPOINT: TokenUse = TokenUse::Untrained(UntrainedCause::AfterLastCheckpoint);

impl Runs {
    /// Begins a run.
    pub async fn create(&self, run: NewRun) -> Result<Run> {
        if run.run_id.is_empty() {
            return Err(StoreError::invalid("run_id", "must not be empty"));
        }
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let row = sqlx::query(
                        "INSERT INTO runs (run_id, name, config, seed, start_time) VALUES ($1, $2, $3, $4, $5)
                     ON CONFLICT (run_id) DO NOTHING RETURNING *",
                    )
                    .bind(checked_id("run_id", &run.run_id)?)
                    .bind(checked_id("name", &run.name)?)
                    .bind(to_json("config", &run.config)?)
                    .bind(run.seed.cast_signed())
                    .bind(now())
                    .fetch_optional(write.connection())
                    .await?;
                    row.as_ref().map_or(Err(StoreError::Conflict { kind: "run", id: run.run_id }), run_from_row)
                })
            })
            .await
    }

    /// A run, if it is known.
    pub async fn get(&self, run_id: &str) -> Result<Option<Run>> {
        let row = sqlx::query("SELECT * FROM runs WHERE run_id = $1")
            .bind(run_id)
            .fetch_optional(&mut *self.database.reader().await?)
            .await?;
        row.as_ref().map(run_from_row).transpose()
    }

    /// All runs, oldest first.
    pub async fn all(&self) -> Result<Vec<Run>> {
        let rows =
            sqlx::query("SELECT * FROM runs ORDER BY position").fetch_all(&mut *self.database.reader().await?).await?;
        rows.iter().map(run_from_row).collect()
    }

    /// Has a run wait once it has made so many updates, or go on to so many; with `None` it waits no more.
    pub async fn allow_steps(&self, run_id: &str, steps: Option<u64>) -> Result<()> {
        let run_id = run_id.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    require_run(write.connection(), &run_id).await?;
                    let steps = steps.map(|steps| to_integer("steps", steps)).transpose()?;
                    sqlx::query("UPDATE runs SET allowed_steps = $2 WHERE run_id = $1")
                        .bind(run_id)
                        .bind(steps)
                        .execute(write.connection())
                        .await?;
                    Ok(())
                })
            })
            .await
    }

    /// Records a step in one transaction: its metrics, what became of the tokens that it consumed,
    /// what teachers made of them, and its checkpoint.
    /// What the run recorded earlier of the same generations is replaced.
    pub async fn record_step(&self, record: StepRecord) -> Result<()> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let run_id = record.run_id.as_str();
                    require_run(write.connection(), run_id).await?;
                    let step = to_integer("step", record.step)?;
                    let inserted = sqlx::query(
                        "INSERT INTO steps (run_id, step, time, metrics, weights_version) VALUES ($1, $2, $3, $4, $5)
                     ON CONFLICT (run_id, step) DO NOTHING",
                    )
                    .bind(run_id)
                    .bind(step)
                    .bind(now())
                    .bind(to_json("metrics", &record.metrics)?)
                    .bind(to_integer("weights_version", record.weights_version)?)
                    .execute(write.connection())
                    .await?
                    .rows_affected();
                    if inserted == 0 {
                        return Err(StoreError::Conflict { kind: "step", id: format!("{step} of run {run_id}") });
                    }
                    replace_uses(write, run_id, Some(step), &record.uses).await?;
                    teacher_logprobs::replace(write.connection(), run_id, &record.teacher_logprobs).await?;
                    if let Some(checkpoint) = &record.checkpoint {
                        insert_checkpoint(write.connection(), run_id, step, checkpoint).await?;
                    }
                    Ok(())
                })
            })
            .await
    }

    /// Records what became of tokens outside of any step, replacing what the run recorded earlier of the same
    /// generations.
    pub async fn record_uses(&self, run_id: &str, uses: Vec<GenerationUse>) -> Result<()> {
        let run_id = run_id.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    require_run(write.connection(), &run_id).await?;
                    replace_uses(write, &run_id, None, &uses).await
                })
            })
            .await
    }

    /// The steps of a run, in order.
    pub async fn steps(&self, run_id: &str) -> Result<Vec<Step>> {
        let rows = sqlx::query("SELECT * FROM steps WHERE run_id = $1 ORDER BY step")
            .bind(run_id)
            .fetch_all(&mut *self.database.reader().await?)
            .await?;
        rows.iter().map(step_from_row).collect()
    }

    /// The checkpoints of a run, in order.
    pub async fn checkpoints(&self, run_id: &str) -> Result<Vec<Checkpoint>> {
        let rows = sqlx::query(
            "SELECT c.*, s.time, s.weights_version FROM checkpoints c JOIN steps s USING (run_id, step)
             WHERE run_id = $1 ORDER BY step",
        )
        .bind(run_id)
        .fetch_all(&mut *self.database.reader().await?)
        .await?;
        rows.iter().map(checkpoint_from_row).collect()
    }

    /// The last checkpoint of a run, if it has one.
    pub async fn latest_checkpoint(&self, run_id: &str) -> Result<Option<Checkpoint>> {
        Ok(self.checkpoints(run_id).await?.pop())
    }

    /// Takes a run back to the end of `to_step` (0: before its first step, if steps count from 1): later steps and
    /// checkpoints are deleted, the tokens that they consumed are accounted as `after_last_checkpoint`, and the run's
    /// unfinished rollouts are cancelled. A checkpoint that a later step recorded of the weights of `to_step`, as the end
    /// of a run does, stays, as that step's.
    pub async fn rewind(&self, run_id: &str, to_step: u64) -> Result<()> {
        let run_id = run_id.to_owned();
        self.database
            .write(move |write| {
                Box::pin(async move {
                    require_run(write.connection(), &run_id).await?;
                    let to_step = to_integer("to_step", to_step)?;
                    undo_uses(write.connection(), &run_id, to_step).await?;
                    keep_checkpoint(write.connection(), &run_id, to_step).await?;
                    for sql in [
                        "DELETE FROM checkpoints WHERE run_id = $1 AND step > $2",
                        "DELETE FROM steps WHERE run_id = $1 AND step > $2",
                    ] {
                        sqlx::query(sql).bind(run_id.as_str()).bind(to_step).execute(write.connection()).await?;
                    }
                    cancel_unfinished(write, &run_id).await
                })
            })
            .await
    }

    /// What a run made of the tokens of a rollout's generations.
    pub async fn uses_of_rollout(&self, run_id: &str, rollout_id: &str) -> Result<Vec<GenerationUse>> {
        let mut sql = Sql::new("SELECT generation_id, cause, tokens FROM generation_uses WHERE run_id = ");
        sql.text(run_id).push(" AND generation_id IN (SELECT generation_id FROM generations WHERE rollout_id = ");
        sql.text(rollout_id).push(") ORDER BY generation_id, cause");
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        let used = |row| {
            Ok(GenerationUse {
                generation_id: column(row, "generation_id")?,
                cause: word(row, "cause")?,
                tokens: count(row, "tokens")?,
            })
        };
        rows.iter().map(used).collect()
    }

    /// The steps of a run that trained tokens of a rollout, in order.
    pub async fn steps_that_trained(&self, run_id: &str, rollout_id: &str) -> Result<Vec<u64>> {
        let mut sql = Sql::new("SELECT DISTINCT step FROM generation_uses WHERE step IS NOT NULL AND cause = ");
        sql.text(TokenUse::Trained.as_str()).push(" AND run_id = ").text(run_id);
        sql.push(" AND generation_id IN (SELECT generation_id FROM generations WHERE rollout_id = ");
        sql.text(rollout_id).push(") ORDER BY step");
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        rows.iter().map(|row| count(row, "step")).collect()
    }

    /// How this run used all sampled tokens in the store. `tokens` sums to all sampled tokens: those that the run has not
    /// accounted for are under `other`, which comes last.
    pub async fn token_ledger(&self, run_id: &str) -> Result<Vec<LedgerRow>> {
        let mut connection = self.database.reader().await?;
        require_run(&mut connection, run_id).await?;
        // One statement, so that it sees one state of the store.
        let rows = sqlx::query(
            "SELECT cause, COUNT(*) AS generations, CAST(SUM(tokens) AS BIGINT) AS tokens, 0 AS last
             FROM generation_uses WHERE run_id = $1 GROUP BY cause
             UNION ALL
             SELECT $2, COALESCE(SUM(CASE WHEN accounted IS NULL THEN 1 ELSE 0 END), 0),
                 CAST(COALESCE(SUM(sampled_length - COALESCE(accounted, 0)), 0) AS BIGINT), 1
             FROM generations LEFT JOIN (
                 SELECT generation_id, SUM(tokens) AS accounted
                 FROM generation_uses WHERE run_id = $1 GROUP BY generation_id
             ) AS uses USING (generation_id)
             ORDER BY last, cause",
        )
        .bind(run_id)
        .bind(TokenUse::Unaccounted.as_str())
        .fetch_all(&mut *connection)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(LedgerRow {
                    cause: word(row, "cause")?,
                    generations: count(row, "generations")?,
                    tokens: count(row, "tokens")?,
                })
            })
            .collect()
    }
}

pub(crate) async fn require_run(connection: &mut AnyConnection, run_id: &str) -> Result<()> {
    let known = sqlx::query("SELECT 1 FROM runs WHERE run_id = $1").bind(run_id).fetch_optional(connection).await?;
    known.map(|_| ()).ok_or_else(|| StoreError::not_found("run", run_id))
}

async fn insert_checkpoint(
    connection: &mut AnyConnection,
    run_id: &str,
    step: i64,
    checkpoint: &CheckpointRecord,
) -> Result<()> {
    sqlx::query("INSERT INTO checkpoints (run_id, step, directory, state) VALUES ($1, $2, $3, $4)")
        .bind(run_id)
        .bind(step)
        .bind(plain("checkpoint.directory", &checkpoint.directory)?)
        .bind(to_json("checkpoint.state", &checkpoint.state)?)
        .execute(connection)
        .await?;
    Ok(())
}

/// Puts these uses in the place of whatever the run had recorded of their generations.
async fn replace_uses(write: &mut Write, run_id: &str, step: Option<i64>, uses: &[GenerationUse]) -> Result<()> {
    let mut accounted: HashMap<&str, i64> = HashMap::new();
    for GenerationUse { generation_id, cause, tokens } in uses {
        if cause.as_str().is_empty() || *cause == TokenUse::Unaccounted {
            return Err(StoreError::invalid(
                "cause",
                format!("{:?} is not a cause that a run can give", cause.as_str()),
            ));
        }
        let sum = accounted.entry(generation_id).or_default();
        *sum = sum.saturating_add(to_integer("tokens", *tokens)?);
    }
    for (generation_id, tokens) in accounted {
        check_length(write.connection(), generation_id, tokens).await?;
        sqlx::query("DELETE FROM generation_uses WHERE run_id = $1 AND generation_id = $2")
            .bind(run_id)
            .bind(generation_id)
            .execute(write.connection())
            .await?;
    }
    for GenerationUse { generation_id, cause, tokens } in uses {
        sqlx::query(
            "INSERT INTO generation_uses (run_id, generation_id, cause, step, tokens) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (run_id, generation_id, cause) DO UPDATE SET tokens = generation_uses.tokens + excluded.tokens",
        )
        .bind(run_id)
        .bind(generation_id.as_str())
        .bind(plain("cause", cause.as_str())?)
        .bind(step)
        .bind(to_integer("tokens", *tokens)?)
        .execute(write.connection())
        .await?;
    }
    Ok(())
}

/// Refuses to account for more tokens than a generation has.
async fn check_length(connection: &mut AnyConnection, generation_id: &str, tokens: i64) -> Result<()> {
    let row = sqlx::query("SELECT sampled_length FROM generations WHERE generation_id = $1")
        .bind(generation_id)
        .fetch_optional(connection)
        .await?
        .ok_or_else(|| StoreError::not_found("generation", generation_id))?;
    let sampled: i64 = row.try_get("sampled_length")?;
    if tokens > sampled {
        let message = format!("{tokens} of generation {generation_id}, which has {sampled} sampled tokens");
        return Err(StoreError::invalid("tokens", message));
    }
    Ok(())
}

/// Accounts every use after a step as lost; several causes of one generation become one.
async fn undo_uses(connection: &mut AnyConnection, run_id: &str, to_step: i64) -> Result<()> {
    sqlx::query(
        "INSERT INTO generation_uses (run_id, generation_id, cause, step, tokens)
         SELECT run_id, generation_id, $3, NULL, SUM(tokens) FROM generation_uses
         WHERE run_id = $1 AND step > $2 GROUP BY run_id, generation_id
         ON CONFLICT (run_id, generation_id, cause) DO UPDATE SET tokens = generation_uses.tokens + excluded.tokens",
    )
    .bind(run_id)
    .bind(to_step)
    .bind(AFTER_LAST_CHECKPOINT.as_str())
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM generation_uses WHERE run_id = $1 AND step > $2")
        .bind(run_id)
        .bind(to_step)
        .execute(connection)
        .await?;
    Ok(())
}

/// Makes the checkpoint of a step's weights that was recorded later, if there is one, that step's own.
async fn keep_checkpoint(connection: &mut AnyConnection, run_id: &str, step: i64) -> Result<()> {
    sqlx::query(
        "UPDATE checkpoints SET step = $2 WHERE run_id = $1 AND step = (
             SELECT MIN(step) FROM steps JOIN checkpoints AS later USING (run_id, step)
             WHERE run_id = $1 AND step > $2
                 AND weights_version = (SELECT weights_version FROM steps WHERE run_id = $1 AND step = $2)
         ) AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE run_id = $1 AND step = $2)",
    )
    .bind(run_id)
    .bind(step)
    .execute(connection)
    .await?;
    Ok(())
}

async fn cancel_unfinished(write: &mut Write, run_id: &str) -> Result<()> {
    let mut sql = Sql::new("SELECT * FROM rollouts WHERE run_id = ");
    let unfinished = RolloutStatus::ALL.iter().filter(|status| !status.is_finished());
    sql.text(run_id).push(" AND status IN ").list(unfinished.map(|status| status.as_str()));
    for row in sql.all(write.connection()).await? {
        set_rollout_status(write, &mut rollout_from_row(&row)?, RolloutStatus::Cancelled).await?;
    }
    Ok(())
}

pub(crate) fn run_from_row(row: &AnyRow) -> Result<Run> {
    Ok(Run {
        run_id: column(row, "run_id")?,
        name: column(row, "name")?,
        config: json(row, "config")?,
        seed: column::<i64>(row, "seed")?.cast_unsigned(),
        start_time: column(row, "start_time")?,
        allowed_steps: column::<Option<i64>>(row, "allowed_steps")?.map(i64::cast_unsigned),
    })
}

pub(crate) fn step_from_row(row: &AnyRow) -> Result<Step> {
    Ok(Step {
        run_id: column(row, "run_id")?,
        step: count(row, "step")?,
        time: column(row, "time")?,
        metrics: json(row, "metrics")?,
        weights_version: count(row, "weights_version")?,
    })
}

fn checkpoint_from_row(row: &AnyRow) -> Result<Checkpoint> {
    Ok(Checkpoint {
        run_id: column(row, "run_id")?,
        step: count(row, "step")?,
        time: column(row, "time")?,
        weights_version: count(row, "weights_version")?,
        directory: column(row, "directory")?,
        state: json(row, "state")?,
    })
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{AttemptStatus, AttemptUpdate, GenerationFilter, NewRollout};
    use serde_json::json;

    use super::*;
    use crate::testing::{TestStore, generation};

    fn new_run() -> NewRun {
        NewRun { run_id: "run".into(), name: "a run".into(), config: json!({"a": 1.5}), seed: u64::MAX }
    }

    fn trained(generation_id: &str, tokens: u64) -> GenerationUse {
        GenerationUse { generation_id: generation_id.into(), cause: "trained".into(), tokens }
    }

    fn step(step: u64, uses: Vec<GenerationUse>) -> StepRecord {
        let checkpoint = CheckpointRecord { directory: format!("step-{step}"), state: json!({"cursor": step}) };
        StepRecord {
            run_id: "run".into(),
            step,
            metrics: json!({"reward": 0.5}),
            weights_version: step,
            uses,
            teacher_logprobs: vec![],
            checkpoint: step.is_multiple_of(2).then_some(checkpoint),
        }
    }

    /// A run, and generations `a`, `b` and `c` with 2, 3 and 1 sampled tokens.
    async fn store_with_run() -> TestStore {
        let store = TestStore::new().await;
        let run = store.runs().create(new_run()).await.unwrap();
        assert_eq!(store.runs().get("run").await.unwrap(), Some(run.clone()));
        assert_eq!(store.runs().all().await.unwrap(), [run]);
        let attempted = store.start().await;
        for (id, sampled) in [("a", &[1, 2][..]), ("b", &[1, 2, 3]), ("c", &[1])] {
            store.recording().record(generation(id, &attempted, &[9], sampled)).await.unwrap();
        }
        store
    }

    fn ledger(rows: &[LedgerRow]) -> Vec<(&str, u64, u64)> {
        rows.iter().map(|row| (row.cause.as_str(), row.generations, row.tokens)).collect()
    }

    #[tokio::test]
    async fn a_run_may_make_as_many_steps_as_it_was_told_last() {
        let store = store_with_run().await;
        let allowed = async || store.runs().get("run").await.unwrap().unwrap().allowed_steps;
        assert_eq!(allowed().await, None);
        for steps in [Some(0), Some(7), Some(3), None] {
            store.runs().allow_steps("run", steps).await.unwrap();
            assert_eq!(allowed().await, steps);
        }
        assert!(matches!(store.runs().allow_steps("other", None).await, Err(StoreError::NotFound { .. })));
        assert!(matches!(store.runs().allow_steps("run", Some(u64::MAX)).await, Err(StoreError::Invalid { .. })));
        assert_eq!(allowed().await, None);
    }

    #[tokio::test]
    async fn a_ledger_sums_to_every_sampled_token() {
        let store = store_with_run().await;
        assert_eq!(ledger(&store.runs().token_ledger("run").await.unwrap()), [("other", 3, 6)]);
        let split = vec![
            trained("b", 2),
            GenerationUse { generation_id: "b".into(), cause: "client_gone".into(), tokens: 1 },
            trained("a", 1),
        ];
        store.runs().record_step(step(1, split)).await.unwrap();
        let expected = [("client_gone", 1, 1), ("trained", 2, 3), ("other", 1, 2)];
        assert_eq!(ledger(&store.runs().token_ledger("run").await.unwrap()), expected);
        store.runs().record_uses("run", vec![trained("b", 3)]).await.unwrap();
        assert_eq!(ledger(&store.runs().token_ledger("run").await.unwrap()), [("trained", 2, 4), ("other", 1, 2)]);
    }

    #[tokio::test]
    async fn the_steps_that_trained_a_rollout_are_known() {
        let store = store_with_run().await;
        let rollout = store.generations().matching(&GenerationFilter::default()).await.unwrap()[0].rollout_id.clone();
        let unused = GenerationUse { cause: "constant_group".into(), ..trained("c", 1) };
        store.runs().record_step(step(3, vec![trained("b", 3)])).await.unwrap();
        store.runs().record_step(step(2, vec![trained("a", 2)])).await.unwrap();
        store.runs().record_step(step(4, vec![unused])).await.unwrap();
        assert_eq!(store.runs().steps_that_trained("run", &rollout).await.unwrap(), [2, 3]);
        assert_eq!(store.runs().steps_that_trained("other", &rollout).await.unwrap(), [0_u64; 0]);
    }

    #[tokio::test]
    async fn a_step_is_recorded_whole_or_not_at_all() {
        let store = store_with_run().await;
        for (uses, expected) in [
            (vec![trained("a", 1), trained("a", 2)], "tokens: 3 of generation a, which has 2 sampled tokens"),
            (vec![trained("a", 1), trained("z", 1)], "generation not found: z"),
            (
                vec![GenerationUse { cause: "other".into(), ..trained("a", 1) }],
                "cause: \"other\" is not a cause that a run can give",
            ),
        ] {
            assert_eq!(store.runs().record_step(step(2, uses)).await.unwrap_err().to_string(), expected);
        }
        assert_eq!(store.runs().steps("run").await.unwrap(), []);
        assert_eq!(ledger(&store.runs().token_ledger("run").await.unwrap()), [("other", 3, 6)]);
        store.runs().record_step(step(2, vec![trained("a", 2)])).await.unwrap();
        let again = store.runs().record_step(step(2, vec![])).await.unwrap_err();
        assert_eq!(again.to_string(), "step already exists: 2 of run run");
        assert!(matches!(store.runs().create(new_run()).await, Err(StoreError::Conflict { kind: "run", .. })));
        assert!(matches!(store.runs().token_ledger("no").await, Err(StoreError::NotFound { kind: "run", .. })));
    }

    #[tokio::test]
    async fn a_rewound_run_is_as_it_was_and_keeps_count_of_what_it_lost() {
        let store = store_with_run().await;
        let rollout = |run_id: &str| NewRollout {
            input: json!(1),
            metadata: json!({"run_id": run_id, "step": 3}).as_object().cloned(),
            ..NewRollout::default()
        };
        let enqueued = store.rollouts().enqueue(vec![rollout("run"), rollout("run"), rollout("else")]).await.unwrap();
        let done = store.rollouts().dequeue(1, None, std::time::Duration::ZERO).await.unwrap().remove(0);
        let succeeded = AttemptUpdate::status(AttemptStatus::Succeeded);
        store.attempts().update(&done.rollout.rollout_id, "latest", succeeded).await.unwrap();

        store.runs().record_step(step(2, vec![trained("a", 2)])).await.unwrap();
        store.runs().record_step(step(3, vec![trained("b", 3)])).await.unwrap();
        store.runs().record_step(step(4, vec![trained("c", 1)])).await.unwrap();
        assert_eq!(store.runs().latest_checkpoint("run").await.unwrap().unwrap().step, 4);
        store.runs().rewind("run", 2).await.unwrap();

        assert_eq!(store.runs().steps("run").await.unwrap().iter().map(|step| step.step).collect::<Vec<_>>(), [2]);
        let checkpoint = store.runs().latest_checkpoint("run").await.unwrap().unwrap();
        assert_eq!((checkpoint.step, checkpoint.directory.as_str()), (2, "step-2"));
        assert_eq!((checkpoint.weights_version, checkpoint.state), (2, json!({"cursor": 2})));
        let expected = [("after_last_checkpoint", 2, 4), ("trained", 1, 2), ("other", 0, 0)];
        assert_eq!(ledger(&store.runs().token_ledger("run").await.unwrap()), expected);
        let mut statuses = Vec::new();
        for rollout in &enqueued {
            statuses.push(store.rollouts().get(&rollout.rollout_id).await.unwrap().unwrap().0.status);
        }
        assert_eq!(statuses, [RolloutStatus::Succeeded, RolloutStatus::Cancelled, RolloutStatus::Queuing]);

        // The same steps can be taken again.
        store.runs().record_step(step(3, vec![trained("b", 3)])).await.unwrap();
        let expected = [("after_last_checkpoint", 1, 1), ("trained", 2, 5), ("other", 0, 0)];
        assert_eq!(ledger(&store.runs().token_ledger("run").await.unwrap()), expected);
    }

    #[tokio::test]
    async fn a_rewound_run_keeps_the_checkpoint_that_its_end_recorded() {
        let store = store_with_run().await;
        let directories = async || {
            let checkpoints = store.runs().checkpoints("run").await.unwrap();
            let of = |checkpoint: Checkpoint| (checkpoint.step, checkpoint.weights_version, checkpoint.directory);
            checkpoints.into_iter().map(of).collect::<Vec<_>>()
        };
        store.runs().record_step(step(2, vec![])).await.unwrap();
        store.runs().record_step(step(3, vec![])).await.unwrap();
        // The end has no update of its own.
        store.runs().record_step(StepRecord { weights_version: 3, ..step(4, vec![]) }).await.unwrap();
        store.runs().rewind("run", 3).await.unwrap();
        let kept = [(2, 2, "step-2".to_owned()), (3, 3, "step-4".to_owned())];
        assert_eq!(directories().await, kept);
        store.runs().rewind("run", 3).await.unwrap();
        assert_eq!(directories().await, kept);
        store.runs().rewind("run", 2).await.unwrap();
        assert_eq!(directories().await, kept[..1]);
    }
}
