//! Who calls a model besides the rollouts of one run.

use fulgurite_types::{OtherCallers, RolloutStatus};
use sqlx::AnyConnection;

use crate::Result;
use crate::database::sql::{Sql, column, count};
use crate::runs::Runs;
use fulgurite_types::time::now;

/// Calls that are looked at in one query, the newest first: no index has the times of calls.
const CALLS_PER_QUERY: i64 = 1000;

impl Runs {
    /// Who has called `model` in the last `seconds`, or is about to, besides the rollouts of this run. Rollouts of another run
    /// count only if that does not train another model: rollouts do not say which model they will call.
    pub async fn other_callers(&self, run_id: &str, model: &str, seconds: f64) -> Result<OtherCallers> {
        let since = now() - seconds;
        let mut connection = self.database.reader().await?;
        Ok(OtherCallers {
            last_call: last_call(&mut connection, run_id, model, since).await?,
            waiting: waiting(&mut connection, run_id, model).await?,
            running: running(&mut connection, run_id, model, since).await?,
        })
    }
}

/// When the newest call of others ended. Calls are recorded as they end, so that those before a page of older ones are older;
/// imported calls may be old wherever they stand.
async fn last_call(connection: &mut AnyConnection, run_id: &str, model: &str, since: f64) -> Result<Option<f64>> {
    let mut before = i64::MAX;
    loop {
        let mut sql = Sql::new(
            "SELECT g.position AS position, g.model AS model, r.run_id AS run_id,
                 COALESCE(s.end_time, s.start_time) AS call_time
             FROM (SELECT position, model, rollout_id, attempt_id, span_id FROM generations WHERE position < ",
        );
        sql.integer(before).push(" ORDER BY position DESC LIMIT ").integer(CALLS_PER_QUERY);
        sql.push(
            ") g JOIN spans s ON s.rollout_id = g.rollout_id AND s.attempt_id = g.attempt_id AND s.span_id = g.span_id
             JOIN rollouts r ON r.rollout_id = g.rollout_id ORDER BY g.position DESC",
        );
        let rows = sql.all(connection).await?;
        let mut is_recent = false;
        for row in &rows {
            before = before.min(column(row, "position")?);
            let Some(call_time) = column::<Option<f64>>(row, "call_time")?.filter(|time| *time >= since) else {
                continue;
            };
            is_recent = true;
            let is_own = column::<Option<String>>(row, "run_id")?.as_deref() == Some(run_id);
            if !is_own && column::<String>(row, "model")? == model {
                return Ok(Some(call_time));
            }
        }
        if !is_recent {
            return Ok(None);
        }
    }
}

/// Rollouts in the queue.
async fn waiting(connection: &mut AnyConnection, run_id: &str, model: &str) -> Result<u64> {
    let mut sql = Sql::new("SELECT COUNT(*) AS waiting FROM rollouts r WHERE r.queue_position IS NOT NULL");
    push_others(&mut sql, run_id, model);
    sql.all(connection).await?.first().map_or(Ok(0), |row| count(row, "waiting"))
}

/// Rollouts that somebody has taken.
async fn running(connection: &mut AnyConnection, run_id: &str, model: &str, since: f64) -> Result<u64> {
    let mut sql = Sql::new("SELECT COUNT(*) AS running FROM rollouts r WHERE r.status IN ");
    sql.list([RolloutStatus::Preparing, RolloutStatus::Running].map(RolloutStatus::as_str));
    push_others(&mut sql, run_id, model);
    sql.push(" AND EXISTS (SELECT 1 FROM attempts a WHERE a.rollout_id = r.rollout_id AND (a.start_time >= ");
    sql.optional_real(Some(since)).push(" OR a.last_heartbeat_time >= ").optional_real(Some(since)).push("))");
    sql.all(connection).await?.first().map_or(Ok(0), |row| count(row, "running"))
}

/// Leaves out the rollouts of the run, and those of runs that train another model.
fn push_others(sql: &mut Sql, run_id: &str, model: &str) {
    sql.push(" AND (r.run_id IS NULL OR (r.run_id <> ").text(run_id);
    sql.push(" AND NOT EXISTS (SELECT 1 FROM named_weights n WHERE n.run_id = r.run_id AND n.model <> ").text(model);
    sql.push(")))");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fulgurite_types::{NewGeneration, NewNamedWeights, NewRollout, OtherCallers, SessionIds, WeightsId};
    use serde_json::json;

    use super::*;
    use crate::testing::{TestStore, generation};

    fn rollout(run_id: Option<&str>) -> NewRollout {
        let metadata = run_id.map(|run_id| json!({ "run_id": run_id, "step": 1 }).as_object().cloned().unwrap());
        NewRollout { input: json!(1), metadata, ..NewRollout::default() }
    }

    async fn callers(store: &TestStore) -> OtherCallers {
        store.runs().other_callers("run", "tiny", 60.0).await.unwrap()
    }

    async fn call(store: &TestStore, id: &str, of: NewRollout, model: &str, ago: f64) {
        let attempted = store.rollouts().start(of, None).await.unwrap();
        let (end_time, start_time) = (now() - ago, now() - ago - 1.0);
        let call =
            NewGeneration { model: model.into(), start_time, end_time, ..generation(id, &attempted, &[1], &[2]) };
        store.recording().record(call).await.unwrap();
        let ended = fulgurite_types::AttemptUpdate::status(fulgurite_types::AttemptStatus::Succeeded);
        store.attempts().update(&attempted.rollout.rollout_id, "latest", ended).await.unwrap();
    }

    #[tokio::test]
    async fn calls_of_others_count_and_not_births_of_sessions() {
        let store = TestStore::new().await;
        call(&store, "own", rollout(Some("run")), "tiny", 0.0).await;
        call(&store, "of-another-model", rollout(None), "other", 0.0).await;
        call(&store, "long-ago", rollout(None), "tiny", 600.0).await;
        assert_eq!(callers(&store).await, OtherCallers::default());
        // Beyond as many as are read at once.
        call(&store, "session", rollout(None), "tiny", 10.0).await;
        let attempted = store.rollouts().start(rollout(Some("run")), None).await.unwrap();
        for number in 0..=CALLS_PER_QUERY {
            let one = generation(&format!("own-{number}"), &attempted, &[1], &[2]);
            let of_now = NewGeneration { start_time: now(), end_time: now(), ..one };
            store.recording().record(of_now).await.unwrap();
        }
        let found = callers(&store).await;
        assert!(found.last_call.is_some_and(|time| (9.0..20.0).contains(&(now() - time))), "{found:?}");
        assert_eq!((found.waiting, found.running), (0, 0));
    }

    #[tokio::test]
    async fn rollouts_of_others_count_that_wait_or_are_run_by_somebody() {
        let store = TestStore::new().await;
        let of = |run_id| [rollout(Some(run_id)), rollout(Some(run_id))];
        store.rollouts().enqueue(of("run").to_vec()).await.unwrap();
        let counted = async || {
            let OtherCallers { last_call, waiting, running } = callers(&store).await;
            assert_eq!(last_call, None);
            (waiting, running)
        };
        assert_eq!(counted().await, (0, 0));
        // Another run counts until it is known to train another model.
        store.rollouts().enqueue(of("beside").to_vec()).await.unwrap();
        assert_eq!(counted().await, (2, 0));
        let weights_id = WeightsId::of_digest([1; 32]);
        let of_other_model =
            NewNamedWeights { run_id: Some("beside".into()), ..NewNamedWeights::of_no_run("m", weights_id, 0) };
        store.weights().name(of_other_model).await.unwrap();
        assert_eq!(counted().await, (0, 0));
        store.rollouts().enqueue(vec![rollout(None); 3]).await.unwrap();
        assert_eq!(counted().await, (3, 0));
        store.rollouts().dequeue(5, None, Duration::ZERO).await.unwrap();
        assert_eq!(counted().await, (2, 1));
        // Nobody has heard of it since.
        assert_eq!(store.runs().other_callers("run", "tiny", 0.0).await.unwrap().running, 0);
        let ids = SessionIds { rollout_id: "session".into(), attempt_id: "at".into() };
        store.rollouts().start_session(&ids).await.unwrap();
        assert_eq!(counted().await, (2, 2));
    }
}
