//! Which attempt a trace belongs to.

use std::collections::HashMap;

use crate::Result;
use crate::database::sql::{Sql, column};
use crate::spans::Spans;

/// Newest rollouts whose spans are looked through, beside those that run. There is no index of traces, which every call
/// would have to write.
const NEWEST: i64 = 1000;
/// Traces that are looked for in one statement.
const TRACES: usize = 500;

/// An attempt by its ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedAttempt {
    /// Its rollout's.
    pub rollout_id: String,
    /// Its own.
    pub attempt_id: String,
}

impl Spans {
    /// The attempts that have spans of these traces, by trace, among rollouts that run and the newest others. A trace of
    /// several attempts belongs to none.
    pub async fn attempts_of_traces(&self, trace_ids: &[&str]) -> Result<HashMap<String, TracedAttempt>> {
        let mut found: HashMap<String, Option<TracedAttempt>> = HashMap::new();
        for traces in trace_ids.chunks(TRACES) {
            let mut sql = Sql::new(
                "SELECT DISTINCT trace_id, rollout_id, attempt_id FROM spans WHERE rollout_id IN (
                     SELECT rollout_id FROM rollouts WHERE status IN ('preparing', 'running')
                     UNION SELECT rollout_id FROM rollouts
                         WHERE position > (SELECT COALESCE(MAX(position), 0) FROM rollouts) - ",
            );
            sql.integer(NEWEST).push(") AND trace_id IN ").list(traces.iter().copied());
            let rows = self.database.patiently(|| async { sql.all(&mut *self.database.reader().await?).await }).await?;
            for row in &rows {
                let attempt =
                    TracedAttempt { rollout_id: column(row, "rollout_id")?, attempt_id: column(row, "attempt_id")? };
                let of_trace = found.entry(column(row, "trace_id")?);
                of_trace.and_modify(|several| *several = None).or_insert(Some(attempt));
            }
        }
        Ok(found.into_iter().filter_map(|(trace, attempt)| Some((trace, attempt?))).collect())
    }
}
