//! Which calls continued an earlier call of their attempt, token by token, and why the others did not.

use fulgurite_types::{CallDrift, DriftReport, ListFilter, Listed, Object, Part};
use serde_json::Value;
use sqlx::any::AnyRow;

use crate::database::sql::{column, count, optional_word, word};
use crate::queries::Queries;
use crate::queries::listing::{GENERATIONS, Kind, page, start};
use crate::rollouts::Rollouts;
use crate::spans::rows::span_from_row;
use crate::{Result, StoreError};

/// Calls without their tokens, with how many they share with the one that they continue. Of later prompts of text or
/// tokens no reason is recorded, for whether they continue anything is not known before: those that do not have changed
/// what was there.
const CALLS: Kind = Kind {
    select: "SELECT g.generation_id, g.rollout_id, g.attempt_id, g.parent_id, g.model, g.position,
            g.sampled_length, g.context_length, g.stop_reason, g.client_gone, g.defect,
            s.span_id, s.trace_id, s.name, s.sequence_id, s.start_time, s.end_time, s.body,
            COALESCE((SELECT p.context_length FROM generations p WHERE p.generation_id = g.parent_id), 0) AS kept,
            COALESCE(g.branch_reason, CASE WHEN g.parent_id IS NOT NULL THEN NULL
                WHEN EXISTS (SELECT 1 FROM generations e WHERE e.rollout_id = g.rollout_id
                    AND e.attempt_id = g.attempt_id AND e.position < g.position) THEN 'history_rewritten'
                ELSE 'first_turn' END) AS reason
        FROM generations g JOIN spans s USING (rollout_id, attempt_id, span_id)",
    ..GENERATIONS
};

impl Queries {
    /// The calls of a rollout, in the order in which they were recorded, and how many of them there are for each
    /// reason not to continue the latest. Fails for a rollout that is not known.
    pub async fn drift(&self, rollout_id: &str) -> Result<DriftReport> {
        if Rollouts::new(&self.database).get(rollout_id).await?.is_none() {
            return Err(StoreError::not_found("rollout", rollout_id));
        }
        let filter = ListFilter { rollout_id_in: Some(vec![rollout_id.to_owned()]), ..ListFilter::default() };
        let listed = self.list_drift(&filter, &Part::Newest { limit: None, sort_by: None }).await?;
        Ok(DriftReport::of(rollout_id, listed.items))
    }

    /// Calls, and how each continues those before it.
    pub async fn list_drift(&self, filter: &ListFilter, part: &Part) -> Result<Listed<CallDrift>> {
        let mut sql = start(&CALLS, filter);
        if let Some(model) = &filter.model {
            sql.push(" AND model = ").text(model);
        }
        let (rows, cursor) = page(sql, &CALLS, part, &mut *self.database.reader().await?).await?;
        Ok(Listed { items: rows.iter().map(call_from_row).collect::<Result<_>>()?, cursor })
    }
}

fn call_from_row(row: &AnyRow) -> Result<CallDrift> {
    let attributes = span_from_row(row)?.attributes;
    let (context_tokens, sampled_tokens): (u64, u64) = (count(row, "context_length")?, count(row, "sampled_length")?);
    Ok(CallDrift {
        generation_id: column(row, "generation_id")?,
        rollout_id: column(row, "rollout_id")?,
        attempt_id: column(row, "attempt_id")?,
        sequence_id: count(row, "sequence_id")?,
        model: column(row, "model")?,
        start_time: column(row, "start_time")?,
        prompt_tokens: context_tokens.saturating_sub(sampled_tokens),
        sampled_tokens,
        continues: column(row, "parent_id")?,
        kept_tokens: count(row, "kept")?,
        reason: optional_word(row, "reason")?,
        nearest: text(&attributes, "fulgurite.departure.generation"),
        message_index: number(&attributes, "fulgurite.departure.message_index"),
        token_index: number(&attributes, "fulgurite.departure.token_index"),
        detail: text(&attributes, "fulgurite.departure.detail"),
        stop_reason: word(row, "stop_reason")?,
        client_disconnected: column::<i64>(row, "client_gone")? != 0,
        defect: optional_word(row, "defect")?,
    })
}

fn text(attributes: &Object, key: &str) -> Option<String> {
    attributes.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn number(attributes: &Object, key: &str) -> Option<u64> {
    attributes.get(key).and_then(Value::as_u64)
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{BranchReason, NewGeneration};
    use serde_json::json;

    use super::*;
    use crate::testing::{TestStore, generation};

    #[tokio::test]
    async fn every_call_says_what_it_continues_or_why_it_does_not() {
        let store = TestStore::new().await;
        let attempted = store.start().await;
        let with = |id: &str, prompt: &[u32], reason: Option<&str>, attributes: Value| NewGeneration {
            branch_reason: reason.map(BranchReason::from),
            attributes: attributes.as_object().cloned().unwrap_or_default(),
            ..generation(id, &attempted, prompt, &[3])
        };
        let left = json!({
            "fulgurite.departure.generation": "b",
            "fulgurite.departure.message_index": 1,
            "fulgurite.departure.token_index": 0,
        });
        for call in [
            with("a", &[1, 2], Some("first_turn"), json!({})),
            with("b", &[1, 2, 3, 4], None, json!({})),
            with("c", &[7], Some("history_rewritten"), left),
        ] {
            store.recording().record(call).await.unwrap();
        }
        let report = store.queries().drift(&attempted.rollout.rollout_id).await.unwrap();
        let reported: Vec<_> = report
            .calls
            .iter()
            .map(|call| {
                (
                    call.generation_id.as_str(),
                    call.continues.as_deref(),
                    call.kept_tokens,
                    call.reason.as_ref().map(BranchReason::as_str),
                )
            })
            .collect();
        assert_eq!(
            reported,
            [("a", None, 0, Some("first_turn")), ("b", Some("a"), 3, None), ("c", None, 0, Some("history_rewritten"))]
        );
        let left = &report.calls[2];
        assert_eq!((left.nearest.as_deref(), left.message_index, left.token_index), (Some("b"), Some(1), Some(0)));
        assert_eq!((report.calls[1].prompt_tokens, report.calls[1].sampled_tokens), (4, 1));
        assert_eq!((report.continued, json!(report.reasons)), (1, json!({ "first_turn": 1, "history_rewritten": 1 })));
        let unknown = store.queries().drift("ro-none").await.unwrap_err();
        assert!(matches!(unknown, StoreError::NotFound { kind: "rollout", .. }));
    }

    #[tokio::test]
    async fn a_call_that_continues_nothing_has_a_reason_though_none_is_recorded() {
        let store = TestStore::new().await;
        let (attempted, other) = (store.start().await, store.start().await);
        for (id, attempted, prompt) in [
            ("a", &attempted, &[1, 2][..]),
            ("b", &other, &[7]),
            ("c", &attempted, &[1, 2, 3]),
            ("d", &attempted, &[1, 9, 3]),
        ] {
            store.recording().record(generation(id, attempted, prompt, &[3])).await.unwrap();
        }
        let listed = store
            .queries()
            .list_drift(&ListFilter::default(), &Part::Newest { limit: None, sort_by: None })
            .await
            .unwrap();
        let mut reported: Vec<_> = listed
            .items
            .iter()
            .map(|call| (&*call.generation_id, call.reason.as_ref().map(BranchReason::as_str)))
            .collect();
        reported.sort_unstable();
        let first = Some("first_turn");
        assert_eq!(reported, [("a", first), ("b", first), ("c", None), ("d", Some("history_rewritten"))]);
    }
}
