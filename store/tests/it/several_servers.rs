//! Several servers on one PostgreSQL database. Without one, as `tests/postgres` starts it, there is nothing to test.

use std::time::Duration;

use fulgurite_store::{Store, StoreError, StoreOptions};
use fulgurite_types::{AttemptStatus, AttemptUpdate, NewRollout, WorkerStatus};
use futures::future::try_join_all;
use serde_json::json;
use sqlx::{AnyConnection, Connection, Row};

use crate::test_database::TestDatabase;

/// Long enough never to be what ends a wait.
const LONG: Duration = Duration::from_secs(600);

async fn postgres() -> Option<TestDatabase> {
    let database = TestDatabase::new().await;
    database.is_postgres().then_some(database)
}

async fn open(database: &TestDatabase) -> Store {
    Store::open(&database.url, StoreOptions::default()).await.unwrap()
}

fn task(id: &str) -> NewRollout {
    NewRollout { rollout_id: Some(id.into()), input: json!(1), ..NewRollout::default() }
}

/// Returns once `worker` has found the queue empty.
async fn until_idle(store: &Store, worker: &str) {
    while store.worker(worker).await.unwrap().is_none_or(|worker| worker.status != WorkerStatus::Idle) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn servers_may_start_at_once() {
    let Some(database) = postgres().await else { return };
    let options = StoreOptions::default();
    let stores = try_join_all((0..4).map(|_| Store::open(&database.url, options))).await.unwrap();
    stores[0].enqueue_rollouts(vec![task("ro-1")]).await.unwrap();
    assert!(stores[3].get_rollout("ro-1").await.unwrap().is_some());
}

#[tokio::test]
async fn one_server_wakes_those_who_wait_at_another() {
    let Some(database) = postgres().await else { return };
    let (here, there) = (open(&database).await, open(&database).await);
    let enqueue = async {
        until_idle(&there, "w").await;
        there.enqueue_rollouts(vec![task("ro-1")]).await.unwrap();
    };
    let (taken, ()) = tokio::join!(here.dequeue_rollouts(1, Some("w"), LONG), enqueue);
    let attempt = taken.unwrap().remove(0).attempt;

    let ids = ["ro-1".to_owned()];
    let finish = async {
        let update = AttemptUpdate::status(AttemptStatus::Succeeded);
        there.update_attempt("ro-1", &attempt.attempt_id, update).await.unwrap();
    };
    let (finished, ()) = tokio::join!(here.wait_for_rollouts(&ids, Some(LONG)), finish);
    assert_eq!(finished.unwrap().len(), 1);
}

#[tokio::test]
async fn each_rollout_is_handed_out_once_by_all_servers_together() {
    let Some(database) = postgres().await else { return };
    let stores = [open(&database).await, open(&database).await, open(&database).await];
    stores[0].enqueue_rollouts((0..60).map(|number| task(&format!("ro-{number}"))).collect()).await.unwrap();
    let takes = (0..30).map(|number| stores[number % 3].dequeue_rollouts(2, None, Duration::ZERO));
    let taken = try_join_all(takes).await.unwrap().concat();
    let mut ids: Vec<_> = taken.iter().map(|taken| taken.rollout.rollout_id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((taken.len(), ids.len()), (60, 60));
    let numbers = try_join_all((0..30).map(|number| stores[number % 3].next_sequence_id("ro-0"))).await.unwrap();
    let mut sorted = numbers;
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_was_under_way_when_connections_break_is_an_error_and_then_it_works_again() {
    let Some(database) = postgres().await else { return };
    let (here, there) = (open(&database).await, open(&database).await);
    here.enqueue_rollouts(vec![task("ro-0")]).await.unwrap();
    here.get_rollout("ro-0").await.unwrap();
    let taken = there.dequeue_rollouts(1, None, Duration::ZERO).await.unwrap();
    assert_eq!(taken.len(), 1);

    let mut other = AnyConnection::connect(&database.url).await.unwrap();
    let sql = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let ended = sqlx::raw_sql(sql).fetch_all(&mut other).await.unwrap();
    assert!(ended.iter().all(|row| row.get::<bool, _>(0)));

    let lost = here.enqueue_rollouts(vec![task("ro-1")]).await.unwrap_err();
    assert!(matches!(lost, StoreError::Unavailable { .. }), "{lost:?}");
    assert_eq!(here.get_rollout("ro-1").await.unwrap(), None);
    // The server there listens again, too.
    let enqueue = async {
        until_idle(&here, "w").await;
        here.enqueue_rollouts(vec![task("ro-1")]).await.unwrap();
    };
    let wait = async {
        // Its writer has not noticed yet.
        assert!(matches!(there.update_worker("w", None).await, Err(StoreError::Unavailable { .. })));
        there.dequeue_rollouts(1, Some("w"), LONG).await.unwrap()
    };
    let (taken, ()) = tokio::join!(wait, enqueue);
    assert_eq!(taken[0].rollout.rollout_id, "ro-1");
}

#[tokio::test]
async fn a_password_is_in_no_error() {
    let Some(database) = postgres().await else { return };
    let refused = database.url.replacen("postgres@", "nobody:sesame@", 1);
    for error in [
        Store::open(&refused, StoreOptions::default()).await.unwrap_err(),
        Store::open_read_only(&refused).await.unwrap_err(),
    ] {
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    }
}
