//! What a store holds, in numbers.

use std::collections::BTreeMap;

use fulgurite_types::{Cursor, ListFilter, Part, WeightsFrom};
use serde::Serialize;

use crate::Result;
use crate::database::dialect::Dialect;
use crate::database::sql::{Sql, column, count, json};
use crate::queries::Queries;

/// Spans that are read at a time.
const PAGE: u64 = 1000;

/// What a store holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Every table, by name.
    pub tables: Vec<TableSize>,
    /// Rollouts by status and mode.
    pub rollouts: Vec<RolloutCount>,
    /// Generations by model and weights.
    pub generations: Vec<GenerationCount>,
    /// Rewards for whole attempts.
    pub rewards: RewardSummary,
    /// When the first rollout was made.
    pub oldest: Option<f64>,
    /// When the last one was.
    pub newest: Option<f64>,
}

/// How much a table holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableSize {
    /// The table.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// Bytes on disk, its indexes included.
    pub bytes: u64,
}

/// How many rollouts there are of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RolloutCount {
    /// Their status.
    pub status: String,
    /// What they are for.
    pub mode: Option<String>,
    /// How many.
    pub rollouts: u64,
}

/// What one version of a model's weights has sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GenerationCount {
    /// The model.
    pub model: String,
    /// Versions of the weights, in turn; none if not known.
    pub weights: Vec<u64>,
    /// Generations.
    pub generations: u64,
    /// Tokens that the model read: every call's whole prompt.
    pub prompt_tokens: u64,
    /// Tokens that it sampled.
    pub sampled_tokens: u64,
}

/// Rewards in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RewardSummary {
    /// How many there are.
    pub rewards: u64,
    /// Their mean, if there are any.
    pub mean: Option<f64>,
    /// The least.
    pub least: Option<f64>,
    /// The greatest.
    pub greatest: Option<f64>,
}

impl RewardSummary {
    fn add(&mut self, value: f64) {
        let before = self.rewards as f64;
        self.rewards += 1;
        self.mean = Some(self.mean.unwrap_or(0.0) * (before / (before + 1.0)) + value / (before + 1.0));
        self.least = Some(self.least.map_or(value, |least| least.min(value)));
        self.greatest = Some(self.greatest.map_or(value, |greatest| greatest.max(value)));
    }
}

impl Queries {
    /// Counts what there is. It reads every reward, and every table's indexes.
    pub async fn summary(&self) -> Result<Summary> {
        let mut connection = self.database.reader().await?;
        let mut tables = Vec::new();
        for row in Sql::new(Dialect::of(&connection).table_sizes()).all(&mut connection).await? {
            let table: String = column(&row, "name")?;
            // The name is the database's own.
            let rows = Sql::new("SELECT COUNT(*) FROM ").push(&table).total(&mut connection).await?;
            tables.push(TableSize { table, rows, bytes: count(&row, "bytes")? });
        }
        let rollouts =
            Sql::new("SELECT status, mode, COUNT(*) AS rollouts FROM rollouts GROUP BY status, mode ORDER BY 1, 2")
                .all(&mut connection)
                .await?
                .iter()
                .map(|row| {
                    let (status, mode) = (column(row, "status")?, column(row, "mode")?);
                    Ok(RolloutCount { status, mode, rollouts: count(row, "rollouts")? })
                })
                .collect::<Result<_>>()?;
        let times = Sql::new("SELECT MIN(start_time) AS oldest, MAX(start_time) AS newest FROM rollouts")
            .one(&mut connection)
            .await?;
        let generations = generation_counts(&mut connection).await?;
        // Rewards need a connection of their own.
        drop(connection);
        Ok(Summary {
            tables,
            rollouts,
            generations,
            rewards: self.reward_summary().await?,
            oldest: column(&times, "oldest")?,
            newest: column(&times, "newest")?,
        })
    }

    async fn reward_summary(&self) -> Result<RewardSummary> {
        let mut summary = RewardSummary::default();
        let (filter, mut cursor) = (ListFilter::default(), Cursor::default());
        loop {
            let before = cursor.clone();
            let part = Part::After { cursor, limit: Some(PAGE) };
            let listed = self.list_rewards(&filter, &part).await?;
            if listed.cursor == before {
                return Ok(summary);
            }
            let of_attempts = listed.items.iter().filter(|found| found.recorded.generation_id.is_none());
            of_attempts.for_each(|found| summary.add(found.recorded.reward.value));
            cursor = listed.cursor;
        }
    }
}

async fn generation_counts(connection: &mut sqlx::AnyConnection) -> Result<Vec<GenerationCount>> {
    let rows = Sql::new(
        "SELECT model, weights_versions, COUNT(*) AS generations,
             CAST(SUM(context_length - sampled_length) AS BIGINT) AS prompt_tokens,
             CAST(SUM(sampled_length) AS BIGINT) AS sampled_tokens
         FROM generations GROUP BY model, weights_versions",
    )
    .all(connection)
    .await?;
    // The same versions may have taken over at different tokens.
    let mut counts: BTreeMap<(String, Vec<u64>), GenerationCount> = BTreeMap::new();
    for row in &rows {
        let model: String = column(row, "model")?;
        let weights: Vec<WeightsFrom> = json(row, "weights_versions")?;
        let weights: Vec<u64> = weights.iter().map(|weights| weights.version).collect();
        let entry = counts.entry((model.clone(), weights.clone())).or_default();
        (entry.model, entry.weights) = (model, weights);
        entry.generations += count::<u64>(row, "generations")?;
        entry.prompt_tokens += count::<u64>(row, "prompt_tokens")?;
        entry.sampled_tokens += count::<u64>(row, "sampled_tokens")?;
    }
    Ok(counts.into_values().collect())
}

#[cfg(test)]
mod tests {
    use fulgurite_types::Reward;

    use super::*;
    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn what_is_there_is_counted() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        store.start().await;
        for (id, versions) in [("a", &[3][..]), ("b", &[3]), ("c", &[3, 4])] {
            let mut generation = generation(id, &attempted, &[1, 2, 3], &[4, 5]);
            let weights =
                versions.iter().zip(0..).map(|(version, first_token)| WeightsFrom { version: *version, first_token });
            generation.weights_versions = weights.collect();
            store.recording().record(generation).await.unwrap();
        }
        for value in [1.0, -0.5, 0.25] {
            store.rewards().add(&attempted.rollout.rollout_id, "latest", None, Reward::new(value)).await.unwrap();
        }
        store.rewards().add_to_generation(&attempted.rollout.rollout_id, "a", Reward::new(9.0)).await.unwrap();
        let summary = store.queries().summary().await.unwrap();
        let rows = |table: &str| summary.tables.iter().find(|size| size.table == table).map(|size| size.rows);
        assert_eq!([rows("rollouts"), rows("spans"), rows("generations")], [Some(2), Some(7), Some(3)]);
        assert!(summary.tables.iter().all(|size| size.bytes > 0));
        let statuses: Vec<(&str, u64)> =
            summary.rollouts.iter().map(|count| (count.status.as_str(), count.rollouts)).collect();
        assert_eq!(statuses, [("preparing", 1), ("running", 1)]);
        let counted = |weights: &[u64], generations| GenerationCount {
            model: "tiny".into(),
            weights: weights.to_vec(),
            generations,
            prompt_tokens: 3 * generations,
            sampled_tokens: 2 * generations,
        };
        assert_eq!(summary.generations, [counted(&[3], 2), counted(&[3, 4], 1)]);
        assert_eq!(
            summary.rewards,
            RewardSummary { rewards: 3, mean: Some(0.25), least: Some(-0.5), greatest: Some(1.0) }
        );
    }

    #[tokio::test]
    async fn an_empty_store_has_a_summary() {
        let summary = TestStore::new().await.queries().summary().await.unwrap();
        assert_eq!((summary.oldest, summary.rewards), (None, RewardSummary::default()));
    }
}
