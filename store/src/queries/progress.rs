//! What is new in a store, for whoever watches it: asked often, and so without reading what was there before.

use crate::Result;
use crate::database::sql::{Sql, column, count};
use crate::queries::Queries;
use crate::runs::record::step_from_row;
use fulgurite_types::Step;

/// How far a run has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunProgress {
    /// The run.
    pub run_id: String,
    /// Steps that are recorded.
    pub steps: u64,
    /// The last of them; 0 before the first.
    pub last_step: u64,
}

/// A model that an attempt called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalledModel {
    /// The attempt's rollout.
    pub rollout_id: String,
    /// The attempt.
    pub attempt_id: String,
    /// The model, as it was named.
    pub model: String,
    /// Tokens that it sampled for the attempt.
    pub sampled_tokens: u64,
}

impl Queries {
    /// How far each run has come, in the order in which they were begun.
    pub async fn run_progress(&self) -> Result<Vec<RunProgress>> {
        let rows = sqlx::query(
            "SELECT runs.run_id, COUNT(steps.step) AS steps, COALESCE(MAX(steps.step), 0) AS last_step
             FROM runs LEFT JOIN steps ON steps.run_id = runs.run_id
             GROUP BY runs.run_id, runs.position ORDER BY runs.position",
        )
        .fetch_all(&mut *self.database.reader().await?)
        .await?;
        let progress = |row| {
            Ok(RunProgress {
                run_id: column(row, "run_id")?,
                steps: count(row, "steps")?,
                last_step: count(row, "last_step")?,
            })
        };
        rows.iter().map(progress).collect()
    }

    /// The steps of a run that come after one, in order.
    pub async fn steps_after(&self, run_id: &str, step: u64) -> Result<Vec<Step>> {
        let mut sql = Sql::new("SELECT * FROM steps WHERE run_id = ");
        sql.text(run_id).push(" AND step > ").integer(i64::try_from(step).unwrap_or(i64::MAX)).push(" ORDER BY step");
        sql.all(&mut *self.database.reader().await?).await?.iter().map(step_from_row).collect()
    }

    /// The place of the rollout that was made last; 0 if there is none.
    pub async fn last_rollout_position(&self) -> Result<i64> {
        let row = sqlx::query("SELECT COALESCE(MAX(position), 0) AS position FROM rollouts");
        column(&row.fetch_one(&mut *self.database.reader().await?).await?, "position")
    }

    /// Which models the attempts at these rollouts called, and what these sampled.
    pub async fn called_models(&self, rollout_ids: &[String]) -> Result<Vec<CalledModel>> {
        let mut sql = Sql::new(
            "SELECT rollout_id, attempt_id, model, CAST(SUM(sampled_length) AS BIGINT) AS sampled_tokens
             FROM generations WHERE rollout_id IN ",
        );
        sql.list(rollout_ids.iter().map(String::as_str)).push(" GROUP BY rollout_id, attempt_id, model");
        let rows = sql.all(&mut *self.database.reader().await?).await?;
        let called = |row| {
            Ok(CalledModel {
                rollout_id: column(row, "rollout_id")?,
                attempt_id: column(row, "attempt_id")?,
                model: column(row, "model")?,
                sampled_tokens: count(row, "sampled_tokens")?,
            })
        };
        rows.iter().map(called).collect()
    }

    /// Completes once all waiting is to end, because the store is about to be closed.
    pub async fn waiting_ended(&self) {
        self.database.signals().closed().await;
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewRun, StepRecord};
    use serde_json::json;

    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn what_is_new_is_told_without_what_was_there() {
        let store = TestStore::new().await;
        for run_id in ["b", "a"] {
            let new = NewRun { run_id: run_id.into(), name: run_id.into(), config: json!({}), seed: 1 };
            store.runs().create(new).await.unwrap();
        }
        for number in 1..=3 {
            let step = StepRecord {
                run_id: "a".into(),
                step: number,
                metrics: json!({ "step": number - 1 }),
                weights_version: number,
                uses: Vec::new(),
                teacher_logprobs: Vec::new(),
                checkpoint: None,
            };
            store.runs().record_step(step).await.unwrap();
        }
        let listed: Vec<(String, u64, u64)> = (store.queries().run_progress().await.unwrap().into_iter())
            .map(|run| (run.run_id, run.steps, run.last_step))
            .collect();
        assert_eq!(listed, [("b".to_owned(), 0, 0), ("a".to_owned(), 3, 3)]);
        let after: Vec<u64> = store.queries().steps_after("a", 1).await.unwrap().iter().map(|step| step.step).collect();
        assert_eq!(after, [2, 3]);
        assert_eq!(store.queries().last_rollout_position().await.unwrap(), 0);
        let attempted = store.rollouts().start(fulgurite_types::NewRollout::default(), None).await.unwrap();
        assert!(store.queries().last_rollout_position().await.unwrap() > 0);
        for id in ["g", "h"] {
            store.recording().record(generation(id, &attempted, &[1], &[2])).await.unwrap();
        }
        let ids = [attempted.rollout.rollout_id.clone()];
        let called = store.queries().called_models(&ids).await.unwrap();
        assert_eq!((called.len(), called[0].sampled_tokens), (1, 2), "each model once");
    }
}
