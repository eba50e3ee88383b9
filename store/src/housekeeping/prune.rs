//! Deleting rollouts that are over, with all that belongs to them.

use fulgurite_types::RolloutStatus;

use crate::Result;
use crate::database::dialect::Dialect;
use crate::database::sql::{Sql, column};
use crate::housekeeping::Housekeeping;
use crate::rollouts::deletion::{Pruned, delete_rollouts};

/// Rollouts that are deleted in one transaction, so that others need not wait long.
const BATCH: u64 = 100;

/// Which finished rollouts are deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct PruneFilter {
    /// Those that ended before this time.
    pub ended_before: f64,
    /// Those with one of these statuses.
    pub status_in: Vec<RolloutStatus>,
}

/// What became of the space that deleted rows had taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// The file was rewritten, without them.
    GivenBack,
    /// The database server uses it again by itself, after its next vacuum.
    LeftToTheServer,
}

impl Housekeeping {
    /// What [`Housekeeping::prune`] would delete.
    pub async fn prunable(&self, filter: &PruneFilter) -> Result<Pruned> {
        let mut connection = self.database.reader().await?;
        let mut count = async |before: &str| {
            let mut sql = Sql::new(before);
            sql.push("rollout_id IN (SELECT rollout_id FROM rollouts WHERE ");
            push_conditions(&mut sql, filter).push(")").total(&mut connection).await
        };
        Ok(Pruned {
            rollouts: count("SELECT COUNT(*) FROM rollouts WHERE ").await?,
            attempts: count("SELECT COUNT(*) FROM attempts WHERE ").await?,
            spans: count("SELECT COUNT(*) FROM spans WHERE ").await?,
            generations: count("SELECT COUNT(*) FROM generations WHERE ").await?,
            generation_uses: count(
                "SELECT COUNT(*) FROM generation_uses JOIN generations USING (generation_id) WHERE ",
            )
            .await?,
        })
    }

    /// Deletes some of the rollouts that a filter selects, oldest first, with all that belongs to them; nothing is
    /// deleted once none is left. A rollout stays whose generation another rollout's continues.
    pub async fn prune(&self, filter: PruneFilter) -> Result<Pruned> {
        self.database
            .write(move |write| {
                Box::pin(async move {
                    let mut sql = Sql::new("SELECT rollout_id FROM rollouts WHERE ");
                    push_conditions(&mut sql, &filter).push(" ORDER BY position").part(Some(BATCH), 0)?;
                    let rows = sql.all(write.connection()).await?;
                    let ids = rows.iter().map(|row| column(row, "rollout_id")).collect::<Result<Vec<&str>>>()?;
                    delete_rollouts(write, &ids).await
                })
            })
            .await
    }

    /// Gives the space of deleted rows back to the file system. On SQLite the whole file is rewritten, during which nothing
    /// else may be written.
    pub async fn give_space_back(&self) -> Result<Space> {
        self.database.writer()?;
        let mut connection = self.database.own_reader().await?;
        if Dialect::of(&connection) == Dialect::Postgres {
            return Ok(Space::LeftToTheServer);
        }
        // The connection has been made for reading only, and is not used again.
        sqlx::raw_sql("PRAGMA query_only = OFF; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")
            .execute(&mut *connection)
            .await?;
        Ok(Space::GivenBack)
    }
}

fn push_conditions<'s>(sql: &'s mut Sql, filter: &PruneFilter) -> &'s mut Sql {
    sql.push("end_time < ").optional_real(Some(filter.ended_before)).push(" AND status IN ");
    sql.list(filter.status_in.iter().filter(|status| status.is_finished()).map(|status| status.as_str())).push(
        " AND NOT EXISTS (
             SELECT 1 FROM generations parent JOIN generations child ON child.parent_id = parent.generation_id
             WHERE parent.rollout_id = rollouts.rollout_id AND child.rollout_id <> rollouts.rollout_id
         )",
    )
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{
        AttemptStatus, AttemptUpdate, Generation, GenerationFilter, GenerationUse, ListFilter, NewRun, Part,
        StepRecord, TeacherLogprobs,
    };

    use super::*;
    use crate::testing::{TestStore, generation};
    use fulgurite_types::time::now;

    /// Six rollouts with two generations each, of which every other one has succeeded.
    async fn half_finished(store: &TestStore) {
        store
            .runs()
            .create(NewRun { run_id: "run".into(), name: String::new(), config: serde_json::Value::Null, seed: 0 })
            .await
            .unwrap();
        for number in 0..6 {
            let attempted = store.start().await;
            for (call, prompt) in [(0, &[1][..]), (1, &[1, 2, 3])] {
                let id = format!("{number}-{call}");
                store.recording().record(generation(&id, &attempted, prompt, &[2])).await.unwrap();
                let used = GenerationUse { generation_id: id, cause: "trained".into(), tokens: 1 };
                store.runs().record_uses("run", vec![used]).await.unwrap();
            }
            if number % 2 == 0 {
                let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
                store.attempts().update(&attempted.rollout.rollout_id, "latest", ended).await.unwrap();
            }
        }
    }

    /// What a teacher made of every generation.
    async fn taught(store: &TestStore) {
        let generations = store.generations().matching(&GenerationFilter::default()).await.unwrap();
        let of_teacher = |generation: Generation| TeacherLogprobs {
            generation_id: generation.generation_id,
            teacher: "large".into(),
            logprobs: vec![-0.5; generation.sampled_tokens.len()],
        };
        let step = StepRecord {
            run_id: "run".into(),
            step: 1,
            metrics: serde_json::Value::Null,
            weights_version: 1,
            uses: vec![],
            teacher_logprobs: generations.into_iter().map(of_teacher).collect(),
            checkpoint: None,
        };
        store.runs().record_step(step).await.unwrap();
    }

    fn ended_before(time: f64) -> PruneFilter {
        PruneFilter { ended_before: time, status_in: RolloutStatus::ALL.to_vec() }
    }

    #[tokio::test]
    async fn finished_rollouts_go_with_all_that_is_theirs() {
        let store = TestStore::new().await;
        half_finished(&store).await;
        taught(&store).await;
        let all = ended_before(now() + 1.0);
        let expected = Pruned { rollouts: 3, attempts: 3, spans: 6, generations: 6, generation_uses: 6 };
        assert_eq!(store.housekeeping().prunable(&all).await.unwrap(), expected);
        assert_eq!(store.housekeeping().prune(all.clone()).await.unwrap(), expected);
        assert_eq!(store.housekeeping().prune(all).await.unwrap(), Pruned::default());
        let every = Part::Newest { limit: None, sort_by: None };
        assert_eq!(store.queries().list_rollouts(&ListFilter::default(), &every).await.unwrap().items.len(), 3);
        let left = store.generations().matching(&GenerationFilter::default()).await.unwrap();
        assert_eq!(
            left.iter().map(|left| &left.generation_id[..]).collect::<Vec<_>>(),
            ["1-0", "1-1", "3-0", "3-1", "5-0", "5-1"]
        );
        assert_eq!(store.housekeeping().check(&mut |_| {}).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn what_is_not_selected_stays() {
        let store = TestStore::new().await;
        half_finished(&store).await;
        let failed = PruneFilter { status_in: vec![RolloutStatus::Failed], ..ended_before(now() + 1.0) };
        assert_eq!(store.housekeeping().prune(failed).await.unwrap(), Pruned::default());
        assert_eq!(store.housekeeping().prune(ended_before(1.0)).await.unwrap(), Pruned::default());
        let running = PruneFilter { status_in: vec![RolloutStatus::Running], ..ended_before(now() + 1.0) };
        assert_eq!(store.housekeeping().prune(running).await.unwrap(), Pruned::default());
    }

    #[tokio::test]
    async fn space_is_given_back() {
        let store = TestStore::new().await;
        half_finished(&store).await;
        while store.housekeeping().prune(ended_before(now() + 1.0)).await.unwrap() != Pruned::default() {}
        let space = store.housekeeping().give_space_back().await.unwrap();
        let expected = if store.database.is_postgres() { Space::LeftToTheServer } else { Space::GivenBack };
        assert_eq!(space, expected);
        // The store is still usable.
        store.start().await;
    }
}
