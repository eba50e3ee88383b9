use fulgurite_types::{
    AttemptNote, AttemptStatus, AttemptUpdate, GenerationUse, NewGeneration, NewRollout, NewRun, Reward, RolloutMode,
    RolloutUpdate, StepRecord, StopReason, TeacherLogprobs,
};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection};

use super::*;
use crate::testing::{TestStore, generation};

mod renewed;
use crate::{Store, StoreOptions};

/// A finished rollout `a` with a conversation of two calls and a reward, and a queued rollout `b`.
async fn sound_store() -> TestStore {
    let store = TestStore::new().await;
    let named = |id: &str| NewRollout {
        rollout_id: Some(id.into()),
        metadata: json!({"run_id": "run", "step": 1}).as_object().cloned(),
        ..NewRollout::default()
    };
    store.runs().create(NewRun { run_id: "run".into(), name: "run".into(), config: json!({}), seed: 1 }).await.unwrap();
    let attempted = store.rollouts().start(named("a"), Some("worker")).await.unwrap();
    store.rollouts().enqueue(vec![named("b")]).await.unwrap();
    for (id, prompt) in [("one", &[1][..]), ("two", &[1, 2, 3])] {
        let mut new = generation(id, &attempted, prompt, &[2]);
        for message in 0..prompt.len() {
            let content = format!("gen_ai.prompt.{message}.content");
            new.attributes.insert(content, json!(format!("message {message}")));
        }
        store.recording().record(new).await.unwrap();
    }
    let used = GenerationUse { generation_id: "one".into(), cause: "trained".into(), tokens: 1 };
    let of_teacher = TeacherLogprobs { generation_id: "one".into(), teacher: "large".into(), logprobs: vec![-0.5] };
    let step = StepRecord {
        run_id: "run".into(),
        step: 1,
        metrics: json!({}),
        weights_version: 1,
        uses: vec![used],
        teacher_logprobs: vec![of_teacher],
        checkpoint: None,
    };
    store.runs().record_step(step).await.unwrap();
    store.rewards().add("a", "latest", None, Reward::new(1.0)).await.unwrap();
    store.attempts().update("a", "latest", AttemptUpdate::status(AttemptStatus::Succeeded)).await.unwrap();
    store
}

async fn violations(store: &Store) -> Vec<Violation> {
    let mut found = Vec::new();
    let number = store
        .housekeeping()
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
    corrupt_url(&store.database.url, sql).await;
}

async fn corrupt_url(url: &str, sql: &str) {
    sqlx::any::install_default_drivers();
    let mut connection = sqlx::AnyConnection::connect(url).await.unwrap();
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
    store.housekeeping().check(&mut report).await.unwrap();
    let expected = [
        ("rollouts", 2, 2),
        ("attempts", 1, 1),
        ("spans", 3, 3),
        ("workers", 1, 1),
        ("runs", 1, 1),
        ("steps", 1, 1),
        ("generations", 2, 2),
        ("attempts", 1, 1),
    ];
    assert_eq!(looked_at, expected);
}

#[tokio::test]
async fn what_no_constraint_sees_is_found() {
    for (sql, expected) in [
        ("UPDATE rollouts SET input = '{' WHERE rollout_id = 'a'", &["readable", "rollout_checksum"][..]),
        ("UPDATE rollouts SET run_id = 'other' WHERE rollout_id = 'a'", &["readable"]),
        ("UPDATE attempts SET metadata = 'x'", &["attempt_checksum", "readable"]),
        ("UPDATE attempts SET end_time = NULL", &["attempt_checksum", "attempt_end_time"]),
        ("UPDATE spans SET name = 'other' WHERE span_id = 'span-one'", &["readable"]),
        ("UPDATE workers SET heartbeat_stats = '[1]'", &["readable"]),
        ("UPDATE runs SET config = ''", &["readable"]),
        (
            "UPDATE generations SET answer = '{\"x\": 1}', messages = '[{\"content\": \"other\"}]' WHERE generation_id = 'one'",
            &["checksum", "messages"],
        ),
        ("UPDATE generations SET messages = 'x' WHERE generation_id = 'two'", &["messages"]),
        (
            "UPDATE generations SET messages_parent_id = 'two' WHERE generation_id = 'one'",
            &["messages", "messages_parent"],
        ),
        ("UPDATE sequence_counters SET value = 2", &["sequence_counter"]),
        ("DELETE FROM sequence_counters", &["sequence_counter"]),
        ("UPDATE generation_uses SET tokens = 2", &["uses"]),
        ("UPDATE teacher_logprobs SET generation_id = 'two', logprobs = logprobs || logprobs", &["teacher_logprobs"]),
        (
            "UPDATE generations SET context_length = context_length + 1 WHERE generation_id = 'two'",
            &["checksum", "context_length"],
        ),
        (
            "UPDATE generations SET weights_versions = 'x' WHERE generation_id = 'two'",
            &["checksum", "generation_chain"],
        ),
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
        [("checksum", "one"), ("context_hash", "one"), ("context_hash", "two")]
    );
}

#[tokio::test]
async fn what_sqlite_was_told_to_pass_over_is_found() {
    for (sql, expected) in [
        (
            "UPDATE rollouts SET status = 'asleep' WHERE rollout_id = 'a'",
            &["database", "readable", "rollout_checksum", "rollout_end_time", "rollout_status"][..],
        ),
        (
            "UPDATE rollouts SET mode = 'fun' WHERE rollout_id = 'a'",
            &["database", "readable", "rollout_checksum", "rollout_mode"],
        ),
        (
            "UPDATE rollouts SET queue_position = NULL WHERE rollout_id = 'b'",
            &["all_rollouts", "database", "queue_position"],
        ),
        (
            "UPDATE rollouts SET end_time = NULL WHERE rollout_id = 'a'",
            &["database", "rollout_checksum", "rollout_end_time"],
        ),
        (
            "UPDATE attempts SET status = 'asleep'",
            &["attempt_checksum", "attempt_end_time", "attempt_status", "database", "readable"],
        ),
        (
            "DELETE FROM rollouts WHERE rollout_id = 'a'",
            &["all_rollouts", "attempt_rollout", "completion_rollout", "foreign_key"],
        ),
        ("DELETE FROM attempts", &["all_attempts", "foreign_key", "span_attempt"]),
        ("DELETE FROM spans WHERE span_id = 'span-two'", &["attempt_rows", "foreign_key", "generation_span"]),
        (
            "DELETE FROM generations WHERE generation_id = 'one'",
            &[
                "attempt_rows",
                "foreign_key",
                "generation_chain",
                "generation_parent",
                "messages",
                "messages_parent",
                "teacher_logprobs",
                "uses",
            ],
        ),
        (
            "UPDATE generations SET prompt_tokens = x'010000' WHERE generation_id = 'one'",
            &["blob_lengths", "checksum", "generation_chain"],
        ),
        (
            "UPDATE generations SET logprobs = x'00' WHERE generation_id = 'two'",
            &["blob_lengths", "checksum", "database", "generation_chain"],
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

/// Four bytes as each database writes them.
fn bytes(store: &TestStore, hex: &str) -> String {
    if store.database.is_postgres() { format!(r"'\x{hex}'") } else { format!("x'{hex}'") }
}

#[tokio::test]
async fn logprobs_that_have_changed_are_found() {
    for (logprob, expected) in [
        (
            "0000c07f",
            &[
                "checksum: it is not what was recorded: its checksum is another one",
                "logprobs: logprob 0 is not a finite number",
            ][..],
        ),
        ("000080bf", &["checksum: it is not what was recorded: its checksum is another one"]),
    ] {
        let store = sound_store().await;
        let sql = format!("UPDATE generations SET logprobs = {} WHERE generation_id = 'two'", bytes(&store, logprob));
        corrupt(&store, &sql).await;
        let mut found: Vec<String> = Vec::new();
        for violation in violations(&store).await {
            assert_eq!(violation.row, "two");
            found.push(format!("{}: {}", violation.law, violation.message));
        }
        found.sort_unstable();
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn whatever_training_reads_of_a_generation_is_under_its_checksum() {
    let store = sound_store().await;
    for change in [
        "weights_versions = '[]'",
        "stop_reason = 'length'",
        "defect = 'x'",
        "branch_reason = 'x'",
        "client_gone = 1",
        "seed = 5",
        "model = 'x'",
        "tokenizer = 'x'",
        "renderer = 'x'",
        "sampling = '{}'",
        "answer = '{\"x\": 1}'",
        "request_digest = 'x'",
        "logprobs = NULL",
    ] {
        let column = change.split_once(' ').unwrap().0;
        corrupt(&store, "CREATE TABLE kept AS SELECT * FROM generations").await;
        corrupt(&store, &format!("UPDATE generations SET {change} WHERE generation_id = 'two'")).await;
        let found = violations(&store).await;
        assert!(laws(&found).contains(&"checksum"), "{change}: {found:?}");
        let back = "(SELECT kept.{} FROM kept WHERE kept.generation_id = 'two')".replace("{}", column);
        let undo = format!("UPDATE generations SET {column} = {back} WHERE generation_id = 'two'; DROP TABLE kept");
        corrupt(&store, &undo).await;
        assert_eq!(violations(&store).await, [], "{change} was undone");
    }
}

#[tokio::test]
async fn rows_that_are_gone_or_came_by_another_way_are_found() {
    let reward = "rollout_id = 'a' AND name LIKE '%annotation%'";
    let copy =
        "INSERT INTO spans (rollout_id, attempt_id, span_id, sequence_id, trace_id, name, start_time, end_time, body)
        SELECT rollout_id, attempt_id, 'copy', sequence_id, trace_id, name, start_time, end_time,
            replace(body, '\"' || span_id || '\"', '\"copy\"') FROM spans WHERE ";
    for (sql, expected) in [
        (format!("DELETE FROM spans WHERE {reward}"), "spans that were recorded: 3, that are there: 2"),
        (format!("{copy}{reward}"), "spans that were recorded: 3, that are there: 4"),
        (
            format!("UPDATE spans SET body = replace(body, '1.0', '9.0') WHERE {reward}"),
            "its spans and generations are not those that were recorded: their digest is another one",
        ),
        (
            format!("{copy}{reward}; DELETE FROM spans WHERE {reward} AND span_id <> 'copy'"),
            "its spans and generations are not those that were recorded: their digest is another one",
        ),
    ] {
        let store = sound_store().await;
        corrupt(&store, &sql).await;
        let found = violations(&store).await;
        let attempts = found.iter().filter(|found| found.law == "attempt_rows").map(|found| &found.message[..]);
        assert_eq!(attempts.collect::<Vec<_>>(), [expected], "{sql}: {found:?}");
        assert!(found.iter().all(|found| found.law == "attempt_rows" && found.row.starts_with("a/")), "{found:?}");
    }
}

#[tokio::test]
async fn rows_of_older_stores_have_no_checksum_and_are_counted() {
    let store = sound_store().await;
    corrupt(
        &store,
        "UPDATE generations SET checksum = NULL; UPDATE attempts SET span_count = NULL, digest = NULL, checksum = NULL;
         UPDATE rollouts SET checksum = NULL; UPDATE row_totals SET digest = 0",
    )
    .await;
    // An attempt from before stays without checksums when calls are added.
    let (rollout, attempt) = store.rollouts().get("a").await.unwrap().unwrap();
    let attempted = fulgurite_types::AttemptedRollout { rollout, attempt: attempt.unwrap() };
    store.recording().record(generation("three", &attempted, &[1, 2, 3, 2, 5], &[2])).await.unwrap();
    store.recording().set_client_disconnected("one", true).await.unwrap();
    let mut without = Vec::new();
    let mut report = |event| {
        if let CheckEvent::WithoutChecksum { table, rows } = event {
            without.push((table, rows));
        }
    };
    assert_eq!(store.housekeeping().check(&mut report).await.unwrap(), 0);
    assert_eq!(without, [("rollouts", 2), ("attempts", 1), ("generations", 2)]);
}

#[tokio::test]
async fn checksums_follow_whatever_the_store_itself_changes() {
    let store = sound_store().await;
    let attempted = store.start().await;
    let partial = NewGeneration {
        stop_reason: StopReason::ClientDisconnected,
        client_disconnected: true,
        ..generation("begun", &attempted, &[1, 2], &[3])
    };
    store.recording().record(partial).await.unwrap();
    store.recording().replace(generation("begun", &attempted, &[1, 2], &[3, 4])).await.unwrap();
    store.recording().record(generation("next", &attempted, &[1, 2, 3, 4, 5], &[6])).await.unwrap();
    store.recording().set_client_disconnected("next", true).await.unwrap();
    store.recording().set_client_disconnected("begun", true).await.unwrap();
    store.recording().set_client_disconnected("begun", false).await.unwrap();
    let session = NewGeneration {
        rollout_id: "ro-alone".into(),
        attempt_id: "at-alone".into(),
        ..generation("alone", &attempted, &[7], &[8])
    };
    store.recording().record_session(session).await.unwrap();
    store.rewards().add(&attempted.rollout.rollout_id, "latest", Some("next"), Reward::new(0.5)).await.unwrap();
    assert_eq!(violations(&store).await, []);
}

/// A row of a table, to be put back later.
const KEPT: &str = "CREATE TABLE kept AS SELECT * FROM ";

#[tokio::test]
async fn a_change_of_any_column_of_a_rollout_or_an_attempt_is_found() {
    let tables = [
        (
            "rollouts WHERE rollout_id = 'b'",
            &[
                "rollout_id = 'c'",
                "input = '\"other\"'",
                "start_time = start_time + 1",
                "status = 'cancelled', end_time = 5, queue_position = NULL",
                "mode = 'val'",
                "resources_id = 'x'",
                "status = 'requeuing'",
                "config = replace(config, '1', '2')",
                "metadata = '{\"run_id\": \"run\", \"step\": 1, \"x\": 2}'",
                "metadata = NULL",
                "run_id = 'x'",
                "step = 2",
                "queue_position = queue_position + 1",
                "position = position + 7",
                "checksum = checksum + 1",
                "checksum = NULL",
            ][..],
        ),
        (
            "attempts WHERE rollout_id = 'a'",
            &[
                "sequence_id = 2",
                "start_time = start_time + 1",
                "end_time = end_time + 1",
                "status = 'failed'",
                "worker_id = NULL",
                "last_heartbeat_time = last_heartbeat_time + 1",
                "last_heartbeat_time = NULL",
                "metadata = '{}'",
                "grader = 'x'",
                "lease_end = 5",
                "span_count = 4",
                "generation_count = NULL",
                "digest = digest + 1",
                "span_count = NULL, generation_count = NULL, digest = NULL",
                "checksum = checksum + 1",
                "checksum = NULL",
                "heartbeat_checksum = NULL",
                "revision = revision + 1",
            ],
        ),
    ];
    for (place, changes) in tables {
        let (table, condition) = place.split_once(' ').unwrap();
        for change in changes {
            let store = sound_store().await;
            corrupt(&store, &format!("UPDATE {table} SET {change} {condition}")).await;
            assert!(!violations(&store).await.is_empty(), "{table}: {change}");
        }
    }
}

#[tokio::test]
async fn a_row_that_is_missing_or_moved_or_an_earlier_version_of_itself_is_found() {
    for (before, after, expected) in [
        ("SELECT 1".to_owned(), "DELETE FROM rollouts WHERE rollout_id = 'b'", "all_rollouts"),
        (
            "SELECT 1".to_owned(),
            "UPDATE rollouts SET position = 99 WHERE rollout_id = 'a';
             UPDATE rollouts SET position = 1 WHERE rollout_id = 'b';
             UPDATE rollouts SET position = 2 WHERE rollout_id = 'a'",
            "all_rollouts",
        ),
        (
            format!("{KEPT} rollouts WHERE rollout_id = 'b'"),
            "DELETE FROM rollouts WHERE rollout_id = 'b'; INSERT INTO rollouts SELECT * FROM kept",
            "all_rollouts",
        ),
        (
            format!("{KEPT} attempts"),
            "UPDATE attempts SET (metadata, last_heartbeat_time, checksum, heartbeat_checksum, revision) =
                 (SELECT metadata, last_heartbeat_time, checksum, heartbeat_checksum, revision FROM kept)",
            "all_attempts",
        ),
        ("SELECT 1".to_owned(), "UPDATE row_totals SET row_count = row_count + 1", "all_rollouts"),
        ("SELECT 1".to_owned(), "DELETE FROM row_totals", "all_rollouts"),
    ] {
        let store = sound_store().await;
        corrupt(&store, &before).await;
        let update = |key: &str| RolloutUpdate {
            metadata: Some(json!({ key: true }).as_object().cloned()),
            ..RolloutUpdate::default()
        };
        store.rollouts().update("b", update("x")).await.unwrap();
        let beat = AttemptUpdate { last_heartbeat_time: Some(5.0), ..AttemptUpdate::default() };
        store.attempts().update("a", "latest", beat).await.unwrap();
        assert_eq!(violations(&store).await, []);
        corrupt(&store, after).await;
        let found = violations(&store).await;
        assert!(laws(&found).contains(&expected), "{after}: {found:?}");
    }
}

#[tokio::test]
async fn a_change_from_outside_is_still_found_after_the_program_has_changed_the_row() {
    let store = sound_store().await;
    corrupt(&store, "UPDATE rollouts SET input = '7' WHERE rollout_id = 'b'").await;
    corrupt(&store, "UPDATE attempts SET metadata = '{\"x\": 1}'").await;
    store.rollouts().dequeue(1, Some("worker"), std::time::Duration::ZERO).await.unwrap();
    let update = RolloutUpdate { mode: Some(Some(RolloutMode::Val)), ..RolloutUpdate::default() };
    store.rollouts().update("b", update).await.unwrap();
    let metadata = json!({"y": 2}).as_object().cloned();
    let update = AttemptUpdate { metadata, ..AttemptUpdate::status(AttemptStatus::Failed) };
    store.attempts().update("a", "latest", update).await.unwrap();
    let found = violations(&store).await;
    assert_eq!(laws(&found), ["attempt_checksum", "rollout_checksum"], "{found:?}");
}

#[tokio::test]
async fn rows_of_older_stores_change_and_stay_without_checksums() {
    let store = sound_store().await;
    corrupt(
        &store,
        "UPDATE attempts SET span_count = NULL, digest = NULL, checksum = NULL; UPDATE rollouts SET checksum = NULL;
         UPDATE resources SET id_checksum = NULL; UPDATE row_totals SET digest = 0",
    )
    .await;
    store
        .rollouts()
        .dequeue_leased(1, Some("worker"), None, std::time::Duration::ZERO, Some(std::time::Duration::from_secs(9)))
        .await
        .unwrap();
    let beat = AttemptUpdate { last_heartbeat_time: Some(5.0), ..AttemptUpdate::default() };
    store.attempts().update("a", "latest", beat).await.unwrap();
    store.rewards().add("a", "latest", None, Reward::new(0.5)).await.unwrap();
    store.rollouts().update("a", RolloutUpdate::default()).await.unwrap();
    assert_eq!(violations(&store).await, []);
    corrupt(&store, "DELETE FROM attempts WHERE rollout_id = 'b'; DELETE FROM rollouts WHERE rollout_id = 'b'").await;
    assert!(laws(&violations(&store).await).contains(&"all_rollouts"));
}

#[tokio::test]
async fn checksums_follow_resources_sessions_leases_and_notes() {
    let store = sound_store().await;
    let resources = json!({"llm": {"resource_type": "llm", "endpoint": "http://127.0.0.1", "model": "m"}});
    store.resources().update(Some("rs"), resources.as_object().cloned().unwrap()).await.unwrap();
    store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap();
    let attempted = store.start().await;
    let session = NewGeneration {
        rollout_id: "ro-alone".into(),
        attempt_id: "at-alone".into(),
        ..generation("alone", &attempted, &[7], &[8])
    };
    store.recording().record_session(session).await.unwrap();
    let second = std::time::Duration::from_secs(1);
    for _ in 0..2 {
        store
            .rollouts()
            .dequeue_leased(1, Some("w"), Some("g"), std::time::Duration::ZERO, Some(second))
            .await
            .unwrap();
    }
    store.attempts().scan_watchdog_at(fulgurite_types::time::now() + 1e6).await.unwrap();
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.clone(), attempted.attempt.attempt_id.clone());
    let (note, beat) = (AttemptNote::HostError("overloaded"), vec![(rollout_id.clone(), attempt_id.clone())]);
    store.attempts().note(&rollout_id, &attempt_id, note).await.unwrap();
    store.attempts().heartbeat(beat).await.unwrap();
    // One that was given up is heard again.
    store
        .attempts()
        .update(&rollout_id, attempt_id.as_str(), AttemptUpdate::status(AttemptStatus::Unresponsive))
        .await
        .unwrap();
    store.recording().record(generation("late", &attempted, &[1], &[2])).await.unwrap();
    assert_eq!(violations(&store).await, []);
    assert_eq!(store.rollouts().get("ro-alone").await.unwrap().unwrap().0.resources_id.as_deref(), Some("rs"));
}

/// What a version without checksums of rollouts and attempts does to them: an end, a heartbeat, a rollout more.
const OLDER_VERSION_WRITES: &str = "
    UPDATE rollouts SET status = 'cancelled', end_time = 9, queue_position = NULL WHERE rollout_id = 'b';
    UPDATE attempts SET last_heartbeat_time = 9;
    INSERT INTO rollouts (rollout_id, input, start_time, status, config, position)
        VALUES ('c', '0', 8, 'running', '{}', 99)";
