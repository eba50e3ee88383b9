//! A database of every version that there has been opens, and everything in it is read back.

use std::path::Path;
use std::time::Duration;

use fulgurite_store::{Store, StoreError, StoreOptions};
use fulgurite_types::{GenerationFilter, Page, RolloutFilter, SpanFilter, TextFilter, WorkerFilter};
use serde_json::{Value, json};
use sqlx::migrate::Migrator;
use sqlx::{AnyConnection, AssertSqlSafe, Connection, Row};

use crate::test_database::TestDatabase;

/// The migrations of a dialect, as they stand in the files.
async fn migrator(dialect: &str) -> Migrator {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations").join(dialect);
    Migrator::new(directory.as_path()).await.unwrap()
}

/// The version that brought Agent-lightning's gateway.
const GATEWAY: i64 = 4;

/// What a database of each version holds that the versions before had no place for, as that version writes it.
fn rows(version: i64, postgres: bool) -> Vec<String> {
    let rows = match version {
        1 => vec![
            include_str!("migrations/0001_rollouts.sql"),
            if postgres {
                include_str!("migrations/0001_spans_postgres.sql")
            } else {
                include_str!("migrations/0001_spans_sqlite.sql")
            },
            include_str!("migrations/0001_generations.sql"),
        ],
        GATEWAY => vec![include_str!("migrations/0004_gateway.sql")],
        _ => Vec::new(),
    };
    // Bytes in hexadecimal are written differently.
    let bytes = if postgres { r"'\x" } else { "X'" };
    rows.into_iter().map(|sql| sql.replace("X'", bytes)).collect()
}

/// Makes a database as it was when `last` was the newest version, and fills it.
async fn database_of(last: i64) -> TestDatabase {
    let database = TestDatabase::new().await;
    let migrator = migrator(if database.is_postgres() { "postgres" } else { "sqlite" }).await;
    sqlx::any::install_default_drivers();
    let file = if database.is_postgres() { "" } else { "?mode=rwc" };
    let mut connection = AnyConnection::connect(&format!("{}{file}", database.url)).await.unwrap();
    for version in migrator.iter().map(|migration| migration.version).filter(|version| *version <= last) {
        migrator.run_to(version, &mut connection).await.unwrap();
        for sql in rows(version, database.is_postgres()) {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
        }
    }
    connection.close().await.unwrap();
    database
}

/// Everything that the store can tell.
async fn contents(store: &Store) -> Value {
    let rollouts = store.rollouts().query(&RolloutFilter::default()).await.unwrap().items;
    let (mut attempts, mut spans) = (Vec::new(), Vec::new());
    for (rollout, _) in &rollouts {
        attempts.extend(store.attempts().of_rollout(&rollout.rollout_id).await.unwrap());
        let filter = SpanFilter { rollout_id: rollout.rollout_id.clone(), ..SpanFilter::default() };
        spans.extend(store.spans().query(&filter).await.unwrap().items);
    }
    let rollouts: Vec<_> = rollouts.into_iter().map(|(rollout, _)| rollout).collect();
    json!({
        "rollouts": rollouts, "attempts": attempts, "spans": spans,
        "generations": store.generations().matching(&GenerationFilter::default()).await.unwrap(),
        "resources": store.resources().query(&TextFilter::default(), &Page::default()).await.unwrap().items,
        "workers": store.workers().query(&WorkerFilter::default()).await.unwrap().items,
        "runs": store.runs().all().await.unwrap(), "steps": store.runs().steps("run-1").await.unwrap(),
        "checkpoints": store.runs().checkpoints("run-1").await.unwrap(),
        "ledger": store.runs().token_ledger("run-1").await.unwrap(),
    })
}

#[tokio::test]
async fn every_earlier_version_opens_with_all_that_it_holds() {
    for version in migrator("sqlite").await.iter().map(|migration| migration.version) {
        let database = database_of(version).await;
        let store = Store::open(&database.url, StoreOptions::default()).await.unwrap();
        insta::assert_json_snapshot!("contents", contents(&store).await);
        assert_eq!(store.rollouts().completions(0, 9).await.unwrap().rollouts.len(), 1, "from version {version}");
        let gateway = store.gateway_rollouts().get("ro-done").await.unwrap().unwrap();
        assert_eq!(gateway.local.is_some(), version >= GATEWAY);

        // And it goes on from there.
        let claimed = store.rollouts().dequeue(2, Some("w-1"), Duration::ZERO).await.unwrap();
        assert_eq!(claimed.iter().map(|claimed| claimed.rollout.rollout_id.as_str()).collect::<Vec<_>>(), ["ro-waits"]);
        assert_eq!(store.spans().next_sequence_id("ro-done").await.unwrap(), 4);
        assert_eq!(store.spans().next_sequence_id("ro-not-yet").await.unwrap(), 8);
        store.close().await;
    }
}

#[tokio::test]
async fn an_earlier_version_is_read_once_it_is_up_to_date() {
    let database = database_of(1).await;
    let error = Store::open_read_only(&database.url).await.unwrap_err();
    assert!(matches!(error, StoreError::Outdated { migration: 2.. }), "{error:?}");
    Store::open(&database.url, StoreOptions::default()).await.unwrap().close().await;
    Store::open_read_only(&database.url).await.unwrap();
}

#[tokio::test]
async fn words_that_no_status_is_are_refused_in_a_database_of_every_version() {
    for version in migrator("sqlite").await.iter().map(|migration| migration.version) {
        let database = database_of(version).await;
        Store::open(&database.url, StoreOptions::default()).await.unwrap().close().await;
        let mut connection = AnyConnection::connect(&database.url).await.unwrap();
        for change in [
            "UPDATE rollouts SET status = 'odd'",
            "UPDATE rollouts SET mode = 'odd'",
            "UPDATE rollouts SET end_time = NULL WHERE rollout_id = 'ro-done'",
            "UPDATE attempts SET status = 'odd'",
        ] {
            assert!(sqlx::raw_sql(change).execute(&mut connection).await.is_err(), "{change}, from version {version}");
        }
        if !database.is_postgres() {
            let lists = "SELECT name FROM sqlite_schema WHERE sql LIKE '%''failed'', ''succeeded'', %'";
            assert_eq!(sqlx::raw_sql(lists).fetch_all(&mut connection).await.unwrap().len(), 0);
            let checked = sqlx::query("PRAGMA integrity_check").fetch_one(&mut connection).await.unwrap();
            assert_eq!(checked.get::<String, _>(0), "ok");
        }
        connection.close().await.unwrap();
    }
}
