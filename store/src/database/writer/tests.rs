use fulgurite_types::{NewRollout, RolloutFilter};
use futures::future::join_all;
use serde_json::json;
use sqlx::Connection;

use crate::database::dialect::Dialect;
use crate::spans::writing::allocate_sequence_id;
use crate::testing::TestStore;
use crate::{Store, StoreError, StoreOptions};

fn task(number: usize) -> NewRollout {
    NewRollout { rollout_id: Some(format!("ro-{number}")), input: json!(number), ..NewRollout::default() }
}

#[tokio::test]
async fn writes_that_wait_together_share_a_commit() {
    let store = TestStore::new().await;
    let writes = join_all((0..200).map(|number| store.rollouts().enqueue(vec![task(number)]))).await;
    assert!(writes.iter().all(Result::is_ok));
    assert!(store.commits() <= 4, "{} commits for 200 writes", store.commits());
}

#[tokio::test]
async fn a_write_is_joined_by_the_next_one_where_the_last_was_shared() {
    let store = TestStore::new().await;
    // The second is about to be sent when the first has been.
    let commits_of_two = async |number: usize| {
        let before = store.commits();
        let first = store.rollouts().enqueue(vec![task(number)]);
        let second = async {
            tokio::task::yield_now().await;
            store.rollouts().enqueue(vec![task(number + 1)]).await
        };
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_ok() && second.is_ok());
        store.commits() - before
    };
    assert_eq!(commits_of_two(0).await, 2, "one that comes alone does not wait");
    let together = join_all((2..4).map(|number| store.rollouts().enqueue(vec![task(number)]))).await;
    assert!(together.iter().all(Result::is_ok));
    assert_eq!(commits_of_two(4).await, 1);
}

#[tokio::test]
async fn a_failing_write_undoes_its_own_work_only() {
    let store = TestStore::new().await;
    // Each of three takes a sequence id of a rollout of its own; each bit of `failing` makes one of them fail
    // afterwards.
    for failing in 0..8 {
        let fails = |place: usize| failing >> place & 1 == 1;
        let rollout_id = |place: usize| format!("ro-{failing}-{place}");
        let write = |place: usize| {
            let (rollout_id, fails) = (rollout_id(place), fails(place));
            store.database().write(move |write| {
                Box::pin(async move {
                    let sequence_id = allocate_sequence_id(write, &rollout_id).await?;
                    if fails { Err(StoreError::not_found("rollout", &rollout_id)) } else { Ok(sequence_id) }
                })
            })
        };
        let commits = store.commits();
        let outcomes = join_all((0..3).map(write)).await;
        assert_eq!(store.commits(), commits + 1);
        for (place, outcome) in outcomes.iter().enumerate() {
            assert_eq!(outcome.is_err(), fails(place), "{failing:03b}, {place}: {outcome:?}");
            let next = store.spans().next_sequence_id(&rollout_id(place)).await.unwrap();
            assert_eq!(next, if fails(place) { 1 } else { 2 }, "{failing:03b}, {place}");
        }
    }
}

#[tokio::test]
async fn work_is_not_handed_to_someone_who_has_gone() {
    let store = TestStore::new().await;
    store.rollouts().enqueue(vec![task(1)]).await.unwrap();
    let cancelled = store.rollouts().dequeue(1, Some("gone"), std::time::Duration::ZERO);
    // Polled once, so that its job is sent, and then dropped.
    assert!(futures::FutureExt::now_or_never(cancelled).is_none());
    let claimed = store.rollouts().dequeue(1, Some("here"), std::time::Duration::ZERO).await.unwrap();
    assert_eq!(claimed[0].attempt.worker_id.as_deref(), Some("here"));
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening() {
    let TestStore { store, database } = TestStore::new().await;
    let url = database.url.clone();
    let stored = store.rollouts().enqueue(vec![task(1)]).await.unwrap();
    drop(store);
    let store = Store::open(&url, StoreOptions::default()).await.unwrap();
    assert_eq!(store.rollouts().get("ro-1").await.unwrap().unwrap().0, stored[0]);
    let second = Store::open_read_only(&url).await.unwrap();
    store.rollouts().enqueue(vec![task(3)]).await.unwrap();
    assert!(second.rollouts().get("ro-3").await.unwrap().is_some());
    store.close().await;
    assert!(matches!(store.rollouts().enqueue(vec![task(2)]).await, Err(StoreError::Closed)));
    assert!(matches!(store.rollouts().get("ro-1").await, Err(StoreError::Closed)));
    let reader = Store::open_read_only(&url).await.unwrap();
    assert_eq!(reader.rollouts().get("ro-1").await.unwrap().unwrap().0, stored[0]);
    assert!(matches!(reader.rollouts().enqueue(vec![task(2)]).await, Err(StoreError::ReadOnly)));
}

#[tokio::test]
async fn a_locked_database_is_an_error_and_then_works_again() {
    let TestStore { store, database } = TestStore::new().await;
    store.close().await;
    let options = StoreOptions { busy_timeout: std::time::Duration::ZERO, ..StoreOptions::default() };
    let store = Store::open(&database.url, options).await.unwrap();
    let mut other = sqlx::AnyConnection::connect(&database.url).await.unwrap();
    let begin = Dialect::of(&other).begin();
    sqlx::raw_sql(begin).execute(&mut other).await.unwrap();
    assert!(matches!(store.rollouts().enqueue(vec![task(1)]).await, Err(StoreError::Busy { .. })));
    sqlx::raw_sql("ROLLBACK").execute(&mut other).await.unwrap();
    store.rollouts().enqueue(vec![task(1)]).await.unwrap();
    assert_eq!(store.rollouts().query(&RolloutFilter::default()).await.unwrap().total, 1);
}
