//! What a run took in all.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Result;
use crate::database::sql::{column, count};
use crate::runs::Runs;

/// What a run took in all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RunTotals {
    /// The run's rollouts, by status.
    pub rollouts: BTreeMap<String, u64>,
    /// Model calls that the run has accounted for, which it does at the end of a step.
    pub calls: u64,
    /// Whether any rollout of the run has a recorded model call, accounted for or not.
    pub has_calls: bool,
    /// Tokens of their prompts, each whole.
    pub prompt_tokens: u64,
    /// Of these, what came after the call that a prompt continues token by token.
    pub new_prompt_tokens: u64,
}

impl Runs {
    /// The totals of a run; all zero of one that is not known.
    pub async fn totals(&self, run_id: &str) -> Result<RunTotals> {
        let mut connection = self.database.reader().await?;
        let calls = sqlx::query(
            "SELECT COUNT(*) AS calls, CAST(COALESCE(SUM(context_length - sampled_length), 0) AS BIGINT) AS whole,
                 CAST(COALESCE(SUM(length(prompt_tokens) / 4), 0) AS BIGINT) AS new
             FROM generations WHERE generation_id IN (SELECT generation_id FROM generation_uses WHERE run_id = $1)",
        )
        .bind(run_id)
        .fetch_one(&mut *connection)
        .await?;
        let rows = sqlx::query("SELECT status, COUNT(*) AS rollouts FROM rollouts WHERE run_id = $1 GROUP BY status")
            .bind(run_id)
            .fetch_all(&mut *connection)
            .await?;
        let rollouts = rows.iter().map(|row| Ok((column(row, "status")?, count(row, "rollouts")?)));
        let has_calls = sqlx::query(
            "SELECT COUNT(*) AS calls FROM (SELECT 1 AS one FROM rollouts
                 JOIN generations ON generations.rollout_id = rollouts.rollout_id
             WHERE rollouts.run_id = $1 LIMIT 1) AS first_call",
        )
        .bind(run_id)
        .fetch_one(&mut *connection)
        .await?;
        Ok(RunTotals {
            rollouts: rollouts.collect::<Result<_>>()?,
            calls: count(&calls, "calls")?,
            has_calls: count::<u64>(&has_calls, "calls")? > 0,
            prompt_tokens: count(&calls, "whole")?,
            new_prompt_tokens: count(&calls, "new")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{GenerationUse, NewRun, TokenUse};
    use serde_json::json;

    use super::*;
    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn prompts_are_counted_whole_and_by_what_is_new_in_them() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        store.recording().record(generation("a", &attempted, &[1, 2, 3], &[4, 5])).await.unwrap();
        store.recording().record(generation("b", &attempted, &[1, 2, 3, 4, 5, 6], &[7])).await.unwrap();
        store.recording().record(generation("c", &attempted, &[9], &[9])).await.unwrap();
        let run = NewRun { run_id: "r".into(), name: "r".into(), config: json!({}), seed: 1 };
        store.runs().create(run).await.unwrap();
        let usage = |id: &str, tokens| GenerationUse { generation_id: id.into(), cause: TokenUse::Trained, tokens };
        store.runs().record_uses("r", vec![usage("a", 2), usage("b", 1)]).await.unwrap();
        let totals = store.runs().totals("r").await.unwrap();
        assert_eq!((totals.calls, totals.prompt_tokens), (2, 9));
        assert_eq!(totals.new_prompt_tokens, 4, "3, and 1 after what the second continues");
        assert_eq!(store.runs().totals("no").await.unwrap(), RunTotals::default());
    }
}
