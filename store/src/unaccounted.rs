//! Generations that a training run has not said anything about yet.

use crate::model::UnaccountedGeneration;
use crate::sql::{column, count};
use crate::{Result, Store};

impl Store {
    /// Every generation in the store of which `run_id` has not recorded what became of its tokens, oldest first.
    pub async fn unaccounted_generations(&self, run_id: &str) -> Result<Vec<UnaccountedGeneration>> {
        let rows = sqlx::query(
            "SELECT generation_id, rollout_id, sampled_length FROM generations
             WHERE NOT EXISTS (
                 SELECT 1 FROM generation_uses
                 WHERE run_id = $1 AND generation_uses.generation_id = generations.generation_id
             )
             ORDER BY start_time, generation_id",
        )
        .bind(run_id)
        .fetch_all(&mut *self.reader().await?)
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
