//! Rollouts that have finished, in that order.

use fulgurite_types::Completions;

use crate::Result;
use crate::database::sql::{column, count, to_integer};
use crate::rollouts::Rollouts;
use crate::rollouts::rows::rollout_from_row;

impl Rollouts {
    /// Up to `limit` of the rollouts that have finished, in that order, after the first `after` of them.
    pub async fn completions(&self, after: u64, limit: u64) -> Result<Completions> {
        let mut connection = self.database.reader().await?;
        let rows = sqlx::query(
            "SELECT c.position AS completed, r.* FROM completions c LEFT JOIN rollouts r USING (rollout_id)
             WHERE c.position > $1 ORDER BY c.position LIMIT $2",
        )
        .bind(to_integer("after", after)?)
        .bind(to_integer("limit", limit)?)
        .fetch_all(&mut *connection)
        .await?;
        let total = sqlx::query("SELECT COALESCE(MAX(position), 0) AS total FROM completions")
            .fetch_one(&mut *connection)
            .await?;
        let mut rollouts = Vec::with_capacity(rows.len());
        for row in &rows {
            // A deleted rollout has left its place; one that was restarted has not finished.
            if column::<Option<f64>>(row, "end_time")?.is_some() {
                rollouts.push(rollout_from_row(row)?);
            }
        }
        Ok(Completions {
            rollouts,
            next_after: rows.last().map_or(Ok(after), |row| count(row, "completed"))?,
            total: count(&total, "total")?,
        })
    }
}
