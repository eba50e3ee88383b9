//! Generations of a training run whose use it has not recorded yet.

use fulgurite_types::UnaccountedGeneration;

use crate::Result;
use crate::database::sql::{column, count};
use crate::runs::Runs;

impl Runs {
    /// Every generation in the store of which `run_id` has not recorded what became of its tokens, oldest first.
    pub async fn unaccounted_generations(&self, run_id: &str) -> Result<Vec<UnaccountedGeneration>> {
        let rows = sqlx::query(
            "SELECT generation_id, rollout_id, sampled_length FROM generations
             WHERE NOT EXISTS (
                 SELECT 1 FROM generation_uses
                 WHERE run_id = $1 AND generation_uses.generation_id = generations.generation_id
             )
             ORDER BY position",
        )
        .bind(run_id)
        .fetch_all(&mut *self.database.reader().await?)
        .await?;
        rows.iter()
            .map(|row| {
                Ok(UnaccountedGeneration {
                    generation_id: column(row, "generation_id")?,
                    rollout_id: column(row, "rollout_id")?,
                    sampled_tokens: count(row, "sampled_length")?,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{GenerationUse, NewRun, UnaccountedGeneration};
    use serde_json::Value;

    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn what_another_run_says_does_not_count() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        for (id, sampled) in [("b", &[1, 2][..]), ("a", &[3])] {
            store.recording().record(generation(id, &attempted, &[9], sampled)).await.unwrap();
        }
        for run_id in ["one", "two"] {
            let run = NewRun { run_id: run_id.into(), name: String::new(), config: Value::Null, seed: 0 };
            store.runs().create(run).await.unwrap();
        }
        let trained = GenerationUse { generation_id: "b".into(), cause: "trained".into(), tokens: 2 };
        store.runs().record_uses("one", vec![trained]).await.unwrap();
        let unaccounted = |id: &str, sampled_tokens| UnaccountedGeneration {
            generation_id: id.into(),
            rollout_id: attempted.rollout.rollout_id.clone(),
            sampled_tokens,
        };
        assert_eq!(store.runs().unaccounted_generations("one").await.unwrap(), [unaccounted("a", 1)]);
        assert_eq!(
            store.runs().unaccounted_generations("two").await.unwrap(),
            [unaccounted("b", 2), unaccounted("a", 1)]
        );
    }
}
