//! Several servers on one PostgreSQL database. Without one, as `tests/postgres` starts it, there is nothing to test.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fulgurite_store::{Store, StoreError, StoreOptions};
use fulgurite_types::{AttemptStatus, AttemptUpdate, NewRollout, RolloutFilter, WorkerStatus};
use futures::future::try_join_all;
use serde_json::json;
use sqlx::{AnyConnection, Connection, Row};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UnixStream};

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
    while store.workers().get(worker).await.unwrap().is_none_or(|worker| worker.status != WorkerStatus::Idle) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn servers_may_start_at_once() {
    let Some(database) = postgres().await else { return };
    let options = StoreOptions::default();
    let stores = try_join_all((0..4).map(|_| Store::open(&database.url, options))).await.unwrap();
    stores[0].rollouts().enqueue(vec![task("ro-1")]).await.unwrap();
    assert!(stores[3].rollouts().get("ro-1").await.unwrap().is_some());
}

#[tokio::test]
async fn one_server_wakes_those_who_wait_at_another() {
    let Some(database) = postgres().await else { return };
    let (here, there) = (open(&database).await, open(&database).await);
    let enqueue = async {
        until_idle(&there, "w").await;
        there.rollouts().enqueue(vec![task("ro-1")]).await.unwrap();
    };
    let (claimed, ()) = tokio::join!(here.rollouts().dequeue(1, Some("w"), LONG), enqueue);
    let attempt = claimed.unwrap().remove(0).attempt;

    let ids = ["ro-1".to_owned()];
    let finish = async {
        let update = AttemptUpdate::status(AttemptStatus::Succeeded);
        there.attempts().update("ro-1", &attempt.attempt_id, update).await.unwrap();
    };
    let (finished, ()) = tokio::join!(here.rollouts().wait_for(&ids, Some(LONG)), finish);
    assert_eq!(finished.unwrap().len(), 1);
}

#[tokio::test]
async fn each_rollout_is_handed_out_once_by_all_servers_together() {
    let Some(database) = postgres().await else { return };
    let stores = [open(&database).await, open(&database).await, open(&database).await];
    stores[0].rollouts().enqueue((0..60).map(|number| task(&format!("ro-{number}"))).collect()).await.unwrap();
    let takes = (0..30).map(|number| stores[number % 3].rollouts().dequeue(2, None, Duration::ZERO));
    let claimed = try_join_all(takes).await.unwrap().concat();
    let mut ids: Vec<_> = claimed.iter().map(|claimed| claimed.rollout.rollout_id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((claimed.len(), ids.len()), (60, 60));
    let numbers =
        try_join_all((0..30).map(|number| stores[number % 3].spans().next_sequence_id("ro-0"))).await.unwrap();
    let mut sorted = numbers;
    sorted.sort_unstable();
    assert_eq!(sorted, (1..=30).collect::<Vec<_>>());
}

#[tokio::test]
async fn connections_that_break_are_made_again_and_lose_nothing() {
    let Some(database) = postgres().await else { return };
    let (here, there) = (open(&database).await, open(&database).await);
    here.rollouts().enqueue(vec![task("ro-0")]).await.unwrap();
    here.rollouts().get("ro-0").await.unwrap();
    let claimed = there.rollouts().dequeue(1, None, Duration::ZERO).await.unwrap();
    assert_eq!(claimed.len(), 1);

    let mut other = AnyConnection::connect(&database.url).await.unwrap();
    let sql = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let ended = sqlx::raw_sql(sql).fetch_all(&mut other).await.unwrap();
    assert!(ended.iter().all(|row| row.get::<bool, _>(0)));

    here.rollouts().enqueue(vec![task("ro-1")]).await.unwrap();
    assert!(here.rollouts().get("ro-1").await.unwrap().is_some());
    let claimed = here.rollouts().dequeue(1, None, Duration::ZERO).await.unwrap();
    assert_eq!(claimed[0].rollout.rollout_id, "ro-1");
    // The server there listens again, too.
    let enqueue = async {
        until_idle(&here, "w").await;
        here.rollouts().enqueue(vec![task("ro-2")]).await.unwrap();
    };
    let wait = async {
        // Its writer has not noticed yet.
        there.workers().update("w", None).await.unwrap();
        there.rollouts().dequeue(1, Some("w"), LONG).await.unwrap()
    };
    let (claimed, ()) = tokio::join!(wait, enqueue);
    assert_eq!(claimed[0].rollout.rollout_id, "ro-2");
    assert_eq!(here.housekeeping().check(&mut |_| {}).await.unwrap(), 0);
}

/// When the connection of a commit breaks.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Breaks {
    BeforeTheServerHasIt,
    BeforeItsAnswer,
}

/// Stands before a server, and breaks the first connection that commits something which names `word`. Gives its URL.
async fn breaking(database: &TestDatabase, word: &'static str, breaks: Breaks) -> String {
    let (_, address) = database.url.split_once('@').unwrap();
    let (host, rest) = address.split_once('/').unwrap();
    let socket = PathBuf::from(host.replace("%2F", "/").replace("%2f", "/")).join(".s.PGSQL.5432");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://postgres@{}/{rest}", listener.local_addr().unwrap());
    let is_broken = Arc::new(AtomicBool::new(false));
    tokio::spawn(async move {
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = UnixStream::connect(&socket).await.unwrap();
            let is_broken = Arc::clone(&is_broken);
            tokio::spawn(async move {
                let (mut sent, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
                let mut names_it = false;
                loop {
                    tokio::select! {
                        read = client.read(&mut sent) => {
                            let bytes = &sent[..read.unwrap_or(0)];
                            let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
                            names_it |= holds(word);
                            if bytes.is_empty() {
                                return;
                            }
                            let breaks_now = names_it && holds("COMMIT") && !is_broken.swap(true, Ordering::SeqCst);
                            if breaks_now && breaks == Breaks::BeforeTheServerHasIt {
                                return;
                            }
                            server.write_all(bytes).await.unwrap();
                            if breaks_now {
                                // Its answer is lost.
                                let _ = server.read(&mut answered).await.unwrap();
                                return;
                            }
                        }
                        read = server.read(&mut answered) => {
                            let read = read.unwrap_or(0);
                            if read == 0 || client.write_all(&answered[..read]).await.is_err() {
                                return;
                            }
                        }
                    }
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_done_once() {
    for breaks in [Breaks::BeforeTheServerHasIt, Breaks::BeforeItsAnswer] {
        let Some(database) = postgres().await else { return };
        let url = breaking(&database, "breaking-word", breaks).await;
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        // Without an id of its own, it would be there twice if it were sent twice.
        let task = NewRollout { input: json!("breaking-word"), ..NewRollout::default() };
        let enqueued = store.rollouts().enqueue(vec![task]).await.unwrap();
        let found = store.rollouts().query(&RolloutFilter::default()).await.unwrap().items;
        assert_eq!(found.len(), 1, "{breaks:?}");
        assert_eq!(found[0].0.rollout_id, enqueued[0].rollout_id, "{breaks:?}");
    }
}

#[tokio::test]
async fn a_database_that_stays_away_is_an_error_once_patience_is_over() {
    let Some(database) = postgres().await else { return };
    let options = StoreOptions { patience: Duration::ZERO, ..StoreOptions::default() };
    let store = Store::open(&database.url, options).await.unwrap();
    let mut other = AnyConnection::connect(&database.url).await.unwrap();
    let sql = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    sqlx::raw_sql(sql).fetch_all(&mut other).await.unwrap();
    let lost = store.rollouts().enqueue(vec![task("ro-1")]).await.unwrap_err();
    assert!(matches!(lost, StoreError::Unavailable { .. }), "{lost:?}");
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
