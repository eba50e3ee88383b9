use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};

use super::*;
use crate::model::{AttemptStatus, AttemptUpdate, GenerationUse, NewRollout, NewRun, Reward};
use crate::testing::{TestStore, generation};

/// A finished rollout `a` with a conversation of two calls and a reward, and a queued rollout `b`.
async fn sound_store() -> TestStore {
    let store = TestStore::new().await;
    let named = |id: &str| NewRollout {
        rollout_id: Some(id.into()),
        metadata: json!({"run_id": "run", "step": 1}).as_object().cloned(),
        ..NewRollout::default()
    };
    store.create_run(NewRun { run_id: "run".into(), name: "run".into(), config: json!({}), seed: 1 }).await.unwrap();
    let attempted = store.start_rollout(named("a"), Some("worker")).await.unwrap();
    store.enqueue_rollouts(vec![named("b")]).await.unwrap();
    for (id, prompt) in [("one", &[1][..]), ("two", &[1, 2, 3])] {
        let mut new = generation(id, &attempted, prompt, &[2]);
        for message in 0..prompt.len() {
            let content = format!("gen_ai.prompt.{message}.content");
            new.attributes.insert(content, json!(format!("message {message}")));
        }
        store.record_generation(new).await.unwrap();
    }
    let used = GenerationUse { generation_id: "one".into(), cause: "trained".into(), tokens: 1 };
    store.record_uses("run", vec![used]).await.unwrap();
    store.add_reward("a", "latest", None, Reward::new(1.0)).await.unwrap();
    store.update_attempt("a", "latest", AttemptUpdate::status(AttemptStatus::Succeeded)).await.unwrap();
    store
}

async fn violations(store: &Store) -> Vec<Violation> {
    let mut found = Vec::new();
    let number = store
        .check(&mut |event| {
            if let CheckEvent::Violation(violation) = event {
                found.push(violation);
            }
        })
        .await
        .unwrap();
    assert_eq!(number, found.len() as u64);
    found
}

fn laws(violations: &[Violation]) -> Vec<&str> {
    let mut laws: Vec<&str> = violations.iter().map(|violation| violation.law).collect();
    laws.sort_unstable();
    laws.dedup();
    laws
}

/// Changes a store behind its back, its constraints switched off.
async fn corrupt(store: &TestStore, sql: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = sqlx::AnyConnection::connect(&store.database.url).await.unwrap();
    let off = match Dialect::of(&connection) {
        Dialect::Sqlite => "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;",
        Dialect::Postgres => "",
    };
    sqlx::raw_sql(AssertSqlSafe(format!("{off} {sql}"))).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

#[tokio::test]
async fn a_sound_store_breaks_no_law_and_every_row_is_looked_at() {
    let store = sound_store().await;
    assert_eq!(violations(&store).await, []);
    let mut looked_at = Vec::new();
    let mut report = |event| {
        if let CheckEvent::Progress { table, done, total } = event {
            looked_at.push((table, done, total));
        }
    };
    store.check(&mut report).await.unwrap();
    let expected = [
        ("rollouts", 2, 2),
        ("attempts", 1, 1),
        ("spans", 3, 3),
        ("workers", 1, 1),
        ("runs", 1, 1),
        ("generations", 2, 2),
    ];
    assert_eq!(looked_at, expected);
}

#[tokio::test]
async fn what_no_constraint_sees_is_found() {
    for (sql, expected) in [
        ("UPDATE rollouts SET input = '{' WHERE rollout_id = 'a'", &["readable"][..]),
        ("UPDATE rollouts SET run_id = 'other' WHERE rollout_id = 'a'", &["readable"]),
        ("UPDATE attempts SET metadata = 'x'", &["readable"]),
        ("UPDATE attempts SET end_time = NULL", &["attempt_end_time"]),
        ("UPDATE spans SET name = 'other' WHERE span_id = 'span-one'", &["readable"]),
        ("UPDATE workers SET heartbeat_stats = '[1]'", &["readable"]),
        ("UPDATE runs SET config = ''", &["readable"]),
        (
            "UPDATE generations SET answer = '{\"x\": 1}', messages = '[{\"content\": \"other\"}]' WHERE generation_id = 'one'",
            &["messages"],
        ),
        ("UPDATE generations SET messages = 'x' WHERE generation_id = 'two'", &["messages"]),
        (
            "UPDATE generations SET messages_parent_id = 'two' WHERE generation_id = 'one'",
            &["messages", "messages_parent"],
        ),
        ("UPDATE sequence_counters SET value = 2", &["sequence_counter"]),
        ("DELETE FROM sequence_counters", &["sequence_counter"]),
        ("UPDATE generation_uses SET tokens = 2", &["uses"]),
        ("UPDATE generations SET context_length = context_length + 1 WHERE generation_id = 'two'", &["context_length"]),
        ("UPDATE generations SET weights_versions = 'x' WHERE generation_id = 'two'", &["generation_chain"]),
        (
            "UPDATE generations SET parent_id = 'two' WHERE generation_id = 'one'",
            &["generation_chain", "generation_parent"],
        ),
    ] {
        let store = sound_store().await;
        corrupt(&store, sql).await;
        let found = violations(&store).await;
        assert_eq!(laws(&found), expected, "{sql}: {found:?}");
    }
}

#[tokio::test]
async fn tokens_that_have_changed_are_found() {
    let store = sound_store().await;
    let four = match store.database.is_postgres() {
        true => r"'\x09000000'",
        false => "x'09000000'",
    };
    corrupt(&store, &format!("UPDATE generations SET sampled_tokens = {four} WHERE generation_id = 'one'")).await;
    let found = violations(&store).await;
    // Whatever continues it is another conversation now, too.
    assert_eq!(
        found.iter().map(|found| (found.law, &found.row[..])).collect::<Vec<_>>(),
        [("context_hash", "one"), ("context_hash", "two")]
    );
}

#[tokio::test]
async fn what_sqlite_was_told_to_pass_over_is_found() {
    for (sql, expected) in [
        (
            "UPDATE rollouts SET status = 'asleep' WHERE rollout_id = 'a'",
            &["database", "readable", "rollout_end_time", "rollout_status"][..],
        ),
        ("UPDATE rollouts SET mode = 'fun' WHERE rollout_id = 'a'", &["database", "readable", "rollout_mode"]),
        ("UPDATE rollouts SET queue_position = NULL WHERE rollout_id = 'b'", &["database", "queue_position"]),
        ("UPDATE rollouts SET end_time = NULL WHERE rollout_id = 'a'", &["database", "rollout_end_time"]),
        ("UPDATE attempts SET status = 'asleep'", &["attempt_end_time", "attempt_status", "database", "readable"]),
        ("DELETE FROM rollouts WHERE rollout_id = 'a'", &["attempt_rollout", "foreign_key"]),
        ("DELETE FROM attempts", &["foreign_key", "span_attempt"]),
        ("DELETE FROM spans WHERE span_id = 'span-two'", &["foreign_key", "generation_span"]),
        (
            "DELETE FROM generations WHERE generation_id = 'one'",
            &["foreign_key", "generation_chain", "generation_parent", "messages", "messages_parent", "uses"],
        ),
        (
            "UPDATE generations SET prompt_tokens = x'010000' WHERE generation_id = 'one'",
            &["blob_lengths", "generation_chain"],
        ),
        (
            "UPDATE generations SET logprobs = x'00' WHERE generation_id = 'two'",
            &["blob_lengths", "database", "generation_chain"],
        ),
    ] {
        let store = sound_store().await;
        if store.database.is_postgres() {
            // It does not let its constraints be passed over.
            return;
        }
        corrupt(&store, sql).await;
        let found = violations(&store).await;
        assert_eq!(laws(&found), expected, "{sql}: {found:?}");
    }
}
