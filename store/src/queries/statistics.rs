use crate::Result;
use crate::database::sql::count;
use crate::queries::Queries;

/// How much a store holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Rollouts.
    pub rollouts: u64,
    /// Attempts.
    pub attempts: u64,
    /// Spans.
    pub spans: u64,
    /// Resources, each counted once however many versions it has had.
    pub resources: u64,
    /// Workers.
    pub workers: u64,
    /// Seconds since the store was opened.
    pub uptime_seconds: f64,
}

impl Queries {
    /// How much the store holds.
    pub async fn statistics(&self) -> Result<Statistics> {
        let row = sqlx::query(
            "SELECT (SELECT COUNT(*) FROM rollouts) AS rollouts, (SELECT COUNT(*) FROM attempts) AS attempts,
                 (SELECT COUNT(*) FROM spans) AS spans, (SELECT COUNT(*) FROM resources) AS resources,
                 (SELECT COUNT(*) FROM workers) AS workers",
        )
        .fetch_one(&mut *self.database.reader().await?)
        .await?;
        Ok(Statistics {
            rollouts: count(&row, "rollouts")?,
            attempts: count(&row, "attempts")?,
            spans: count(&row, "spans")?,
            resources: count(&row, "resources")?,
            workers: count(&row, "workers")?,
            uptime_seconds: self.database.uptime().as_secs_f64(),
        })
    }
}
