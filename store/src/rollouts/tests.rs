use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use fulgurite_types::{
    Attempt, AttemptStatus, AttemptUpdate, FilterLogic, NewRollout, Page, RolloutConfig, RolloutFilter, RolloutStatus,
    RolloutUpdate, SortOrder, WorkerStatus,
};
use futures::future::join_all;
use proptest::prelude::*;
use serde_json::json;

use crate::testing::{TestStore, generation, rollout_with};
use crate::{Store, StoreError};

const NO_WAIT: Duration = Duration::ZERO;
/// Long enough never to be what ends a wait.
const LONG: Duration = Duration::from_secs(600);

fn retried() -> RolloutConfig {
    RolloutConfig {
        max_attempts: 2,
        retry_condition: vec![AttemptStatus::Failed, AttemptStatus::Unresponsive],
        ..RolloutConfig::default()
    }
}

fn task(number: usize) -> NewRollout {
    NewRollout { rollout_id: Some(format!("ro-{number}")), input: json!({"n": number}), ..NewRollout::default() }
}

async fn status(store: &Store, rollout_id: &str) -> RolloutStatus {
    store.rollouts().get(rollout_id).await.unwrap().unwrap().0.status
}

#[tokio::test]
async fn a_rollout_is_enqueued_once_however_often_it_is_sent() {
    let store = TestStore::new().await;
    let mut first = store.rollouts().enqueue(vec![task(1), task(2)]).await.unwrap();
    let changed = NewRollout { input: json!("else"), ..task(2) };
    let again = store.rollouts().enqueue(vec![changed, task(3)]).await.unwrap();
    assert_eq!(again[0], first.remove(1));
    let generated = store.rollouts().enqueue(vec![NewRollout::default()]).await.unwrap().remove(0);
    assert!(generated.rollout_id.starts_with("ro-") && generated.rollout_id.len() == 23);
    let claimed = store.rollouts().dequeue(9, None, NO_WAIT).await.unwrap();
    let ids: Vec<_> = claimed.iter().map(|claimed| claimed.rollout.rollout_id.as_str()).collect();
    assert_eq!(ids, ["ro-1", "ro-2", "ro-3", generated.rollout_id.as_str()]);
    assert!(store.rollouts().dequeue(9, None, NO_WAIT).await.unwrap().is_empty());
}

#[tokio::test]
async fn each_rollout_is_handed_out_once() {
    let store = TestStore::new().await;
    store.rollouts().enqueue((0..100).map(task).collect()).await.unwrap();
    let workers: Vec<String> = (0..20).map(|number| format!("worker-{number}")).collect();
    let takes = join_all(workers.iter().map(|worker| store.rollouts().dequeue(7, Some(worker), NO_WAIT))).await;
    let claimed: Vec<_> = takes.into_iter().flat_map(Result::unwrap).collect();
    let ids: HashSet<_> = claimed.iter().map(|claimed| claimed.rollout.rollout_id.clone()).collect();
    assert_eq!((claimed.len(), ids.len()), (100, 100));
    assert!(claimed.iter().all(|claimed| claimed.attempt.sequence_id == 1 && claimed.attempt.attempt_id.len() == 11));
    let last = store.workers().get("worker-19").await.unwrap().unwrap();
    assert_eq!(last.status, WorkerStatus::Idle);
    let first = store.workers().get("worker-0").await.unwrap().unwrap();
    assert_eq!(first.status, WorkerStatus::Busy);
    assert_eq!(first.current_rollout_id.as_deref(), Some("ro-6"));
}

#[tokio::test]
async fn whoever_waits_for_work_is_woken_by_it() {
    let store = TestStore::new().await;
    let enqueue = async {
        // Polled after the waiting calls have found the queue empty.
        store.rollouts().dequeue(1, None, NO_WAIT).await.unwrap();
        store.rollouts().enqueue(vec![task(1), task(2)]).await.unwrap()
    };
    let (one, two, _) =
        tokio::join!(store.rollouts().dequeue(1, None, LONG), store.rollouts().dequeue(1, None, LONG), enqueue);
    let mut ids = [one.unwrap(), two.unwrap()].map(|claimed| claimed[0].rollout.rollout_id.clone());
    ids.sort();
    assert_eq!(ids, ["ro-1", "ro-2"]);
}

#[tokio::test]
async fn whoever_waits_for_rollouts_is_woken_when_all_have_finished() {
    let store = TestStore::new().await;
    store.rollouts().enqueue(vec![task(1), task(2)]).await.unwrap();
    let claimed = store.rollouts().dequeue(2, None, NO_WAIT).await.unwrap();
    let ids = ["ro-2", "ro-unknown", "ro-1"].map(str::to_owned);
    assert!(store.rollouts().wait_for(&ids, Some(NO_WAIT)).await.unwrap().is_empty());
    let finish = async {
        for (claimed, status) in claimed.iter().zip([AttemptStatus::Succeeded, AttemptStatus::Failed]) {
            let update = AttemptUpdate::status(status);
            store.attempts().update(&claimed.rollout.rollout_id, &claimed.attempt.attempt_id, update).await.unwrap();
        }
    };
    let (finished, ()) = tokio::join!(store.rollouts().wait_for(&ids, None), finish);
    let finished: Vec<_> = finished.unwrap().into_iter().map(|rollout| (rollout.rollout_id, rollout.status)).collect();
    let expected = [("ro-2".to_owned(), RolloutStatus::Failed), ("ro-1".to_owned(), RolloutStatus::Succeeded)];
    assert_eq!(finished, expected);
}

#[tokio::test]
async fn a_failed_attempt_is_retried_until_the_limit() {
    let store = TestStore::new().await;
    let rollout = store.rollouts().enqueue(vec![rollout_with(retried())]).await.unwrap().remove(0);
    let id = rollout.rollout_id.as_str();
    for (sequence_id, expected) in [(1, RolloutStatus::Requeuing), (2, RolloutStatus::Failed)] {
        let claimed = store.rollouts().dequeue(1, Some("w"), NO_WAIT).await.unwrap().remove(0);
        assert_eq!(claimed.attempt.sequence_id, sequence_id);
        store.attempts().update(id, "latest", AttemptUpdate::status(AttemptStatus::Running)).await.unwrap();
        assert_eq!(status(&store, id).await, RolloutStatus::Running);
        let failed = AttemptUpdate::status(AttemptStatus::Failed);
        let attempt = store.attempts().update(id, &claimed.attempt.attempt_id, failed).await.unwrap();
        assert!(attempt.end_time.is_some());
        assert_eq!(status(&store, id).await, expected);
        let worker = store.workers().get("w").await.unwrap().unwrap();
        assert_eq!((worker.status, worker.current_attempt_id), (WorkerStatus::Idle, None));
    }
    assert!(store.rollouts().dequeue(1, None, NO_WAIT).await.unwrap().is_empty());
    assert_eq!(store.attempts().of_rollout(id).await.unwrap().len(), 2);
    assert!(store.rollouts().get(id).await.unwrap().unwrap().0.end_time.is_some());
}

#[tokio::test]
async fn a_released_worker_gives_its_work_back() {
    let store = TestStore::new().await;
    let rollout = store.rollouts().enqueue(vec![rollout_with(retried())]).await.unwrap().remove(0);
    let first = store.rollouts().dequeue(1, Some("gone"), NO_WAIT).await.unwrap().remove(0);
    let released = store.workers().release("gone").await.unwrap();
    assert_eq!(released.iter().map(|attempt| attempt.status).collect::<Vec<_>>(), [AttemptStatus::Unresponsive]);
    assert!(store.workers().release("gone").await.unwrap().is_empty());
    let second = store.rollouts().dequeue(1, Some("other"), NO_WAIT).await.unwrap().remove(0);
    assert_eq!((&second.rollout.rollout_id, second.attempt.sequence_id), (&rollout.rollout_id, 2));
    // A late word from the first attempt revives that attempt, but not at the expense of the second.
    store.recording().record(generation("late", &first, &[1], &[2])).await.unwrap();
    assert_eq!(status(&store, &rollout.rollout_id).await, RolloutStatus::Preparing);
    let attempt = store.attempts().get(&rollout.rollout_id, &first.attempt.attempt_id).await.unwrap().unwrap();
    assert_eq!((attempt.status, attempt.end_time), (AttemptStatus::Running, None));
}

#[tokio::test]
async fn a_word_from_an_unresponsive_attempt_takes_its_rollout_off_the_queue() {
    let store = TestStore::new().await;
    let rollout = store.rollouts().enqueue(vec![rollout_with(retried())]).await.unwrap().remove(0);
    let claimed = store.rollouts().dequeue(1, Some("w"), NO_WAIT).await.unwrap().remove(0);
    store.workers().release("w").await.unwrap();
    assert_eq!(status(&store, &rollout.rollout_id).await, RolloutStatus::Requeuing);
    store.recording().record(generation("late", &claimed, &[1], &[2])).await.unwrap();
    assert_eq!(status(&store, &rollout.rollout_id).await, RolloutStatus::Running);
    assert!(store.rollouts().dequeue(1, None, NO_WAIT).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_late_report_changes_nothing() {
    let store = TestStore::new().await;
    let rollout = store.rollouts().enqueue(vec![rollout_with(retried())]).await.unwrap().remove(0);
    let id = rollout.rollout_id.as_str();
    let first = store.rollouts().dequeue(1, None, NO_WAIT).await.unwrap().remove(0).attempt;
    let report = |attempt: &Attempt, status| {
        let (store, attempt_id) = (store.store.clone(), attempt.attempt_id.clone());
        async move { store.attempts().report(id, &attempt_id, AttemptUpdate::status(status)).await.unwrap() }
    };
    report(&first, AttemptStatus::Failed).await;
    assert_eq!(report(&first, AttemptStatus::Succeeded).await.status, AttemptStatus::Failed);
    assert_eq!(status(&store, id).await, RolloutStatus::Requeuing);
    let second = store.rollouts().dequeue(1, None, NO_WAIT).await.unwrap().remove(0).attempt;
    assert_eq!(report(&first, AttemptStatus::Succeeded).await.status, AttemptStatus::Failed);
    let cancelled = RolloutUpdate { status: Some(RolloutStatus::Cancelled), ..RolloutUpdate::default() };
    store.rollouts().update(id, cancelled).await.unwrap();
    assert_eq!(report(&second, AttemptStatus::Succeeded).await.status, AttemptStatus::Preparing);
    assert_eq!(status(&store, id).await, RolloutStatus::Cancelled);
    // On the wire of others an explicit update counts, whatever came before.
    store.attempts().update(id, "latest", AttemptUpdate::status(AttemptStatus::Succeeded)).await.unwrap();
    assert_eq!(status(&store, id).await, RolloutStatus::Succeeded);
}

#[tokio::test]
async fn the_watchdog_ends_what_is_overdue() {
    let store = TestStore::new().await;
    let config = RolloutConfig { timeout_seconds: Some(100.0), unresponsive_seconds: Some(10.0), ..retried() };
    store.rollouts().enqueue(vec![rollout_with(config), task(2)]).await.unwrap();
    let claimed = store.rollouts().dequeue(2, None, NO_WAIT).await.unwrap().remove(0);
    let start = claimed.attempt.start_time;
    assert!(store.attempts().scan_watchdog_at(start + 9.0).await.unwrap().is_empty());
    let ended = store.attempts().scan_watchdog_at(start + 1e6).await.unwrap();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].status, ended[0].end_time.is_some()), (AttemptStatus::Timeout, true));
    // A timeout is not among what is retried.
    assert_eq!(status(&store, &claimed.rollout.rollout_id).await, RolloutStatus::Failed);
    assert!(store.attempts().scan_watchdog_at(start + 1e6).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_list_is_filtered_sorted_and_cut() {
    let store = TestStore::new().await;
    let of_run = |number: usize, step: u64| NewRollout {
        metadata: json!({"run_id": "r", "step": step}).as_object().cloned(),
        ..task(number)
    };
    store.rollouts().enqueue(vec![of_run(1, 1), of_run(2, 2), task(3), task(4)]).await.unwrap();
    store.rollouts().dequeue(1, None, NO_WAIT).await.unwrap();
    let ids = async |filter: RolloutFilter| {
        let page = store.rollouts().query(&filter).await.unwrap();
        let ids: Vec<_> = page.items.into_iter().map(|(rollout, _)| rollout.rollout_id).collect();
        (ids.join(" "), page.total)
    };
    let any = RolloutFilter::default;
    assert_eq!(ids(RolloutFilter { run_id: Some("r".into()), ..any() }).await, ("ro-1 ro-2".into(), 2));
    assert_eq!(ids(RolloutFilter { step: Some(2), ..any() }).await, ("ro-2".into(), 1));
    assert_eq!(ids(RolloutFilter { status_in: Some(vec![]), ..any() }).await, (String::new(), 0));
    let preparing = RolloutFilter { status_in: Some(vec![RolloutStatus::Preparing]), ..any() };
    assert_eq!(ids(preparing.clone()).await, ("ro-1".into(), 1));
    let either =
        RolloutFilter { rollout_id_contains: Some("3".into()), filter_logic: Some(FilterLogic::Or), ..preparing };
    assert_eq!(ids(either).await, ("ro-1 ro-3".into(), 2));
    let page =
        Page { limit: Some(2), offset: 1, sort_by: Some("rollout_id".into()), sort_order: Some(SortOrder::Descending) };
    assert_eq!(ids(RolloutFilter { page: page.clone(), ..any() }).await, ("ro-3 ro-2".into(), 4));
    let page = Page { sort_by: Some("bogus".into()), ..page };
    let error = store.rollouts().query(&RolloutFilter { page, ..any() }).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid { message, .. } if message.starts_with("Invalid sort_by: bogus")));
}

#[tokio::test]
async fn what_cannot_be_stored_as_text_is_refused() {
    let store = TestStore::new().await;
    let claimed = store.start().await;
    let named = |id: &str| NewRollout { rollout_id: Some(id.into()), ..NewRollout::default() };
    let of_run = NewRollout { metadata: json!({"run_id": "r\0"}).as_object().cloned(), ..NewRollout::default() };
    let call = fulgurite_types::NewGeneration { model: "\0".into(), ..generation("g", &claimed, &[1], &[2]) };
    let filter = RolloutFilter { rollout_id_contains: Some("\0".into()), ..RolloutFilter::default() };
    let errors = [
        ("rollout_id", store.rollouts().enqueue(vec![named("ro\0")]).await.unwrap_err()),
        ("metadata.run_id", store.rollouts().enqueue(vec![of_run]).await.unwrap_err()),
        ("worker_id", store.rollouts().dequeue(1, Some("w\0"), NO_WAIT).await.unwrap_err()),
        ("worker_id", store.workers().update("w\0", None).await.unwrap_err()),
        ("model", store.recording().record(call).await.unwrap_err()),
        ("rollout_id", store.spans().next_sequence_id("\0").await.unwrap_err()),
        ("filter", store.rollouts().query(&filter).await.unwrap_err()),
    ];
    for (field, error) in errors {
        assert_eq!(error.to_string(), format!("{field}: holds a NUL character"));
    }
    // JSON writes it in another way.
    let inside = NewRollout { input: json!("a\0b"), ..NewRollout::default() };
    let stored = store.rollouts().enqueue(vec![inside]).await.unwrap().remove(0);
    assert_eq!(store.rollouts().get(&stored.rollout_id).await.unwrap().unwrap().0.input, json!("a\0b"));
}

#[tokio::test]
async fn texts_are_ordered_by_their_bytes() {
    let store = TestStore::new().await;
    let named = |id: &str| NewRollout { rollout_id: Some(id.into()), ..NewRollout::default() };
    store.rollouts().enqueue(["b", "a", "é", "B", "a-b", "ab"].map(named).into()).await.unwrap();
    let page = Page { sort_by: Some("rollout_id".into()), ..Page::default() };
    let found = store.rollouts().query(&RolloutFilter { page, ..RolloutFilter::default() }).await.unwrap().items;
    let ids: Vec<_> = found.iter().map(|(rollout, _)| rollout.rollout_id.as_str()).collect();
    assert_eq!(ids, ["B", "a", "a-b", "ab", "b", "é"]);
}

#[derive(Clone, Debug)]
enum Operation {
    Enqueue,
    Dequeue,
    Report(usize, AttemptStatus),
    HearOf(usize),
    Release,
    Watchdog,
    Cancel(usize),
}

fn operation() -> impl Strategy<Value = Operation> {
    let status = prop::sample::select(AttemptStatus::ALL);
    prop_oneof![
        2 => Just(Operation::Enqueue),
        3 => Just(Operation::Dequeue),
        4 => (0..8_usize, status).prop_map(|(index, status)| Operation::Report(index, status)),
        2 => (0..8_usize).prop_map(Operation::HearOf),
        1 => Just(Operation::Release),
        1 => Just(Operation::Watchdog),
        1 => (0..8_usize).prop_map(Operation::Cancel),
    ]
}

/// Runs operations as a runner would and gives the statuses that each rollout has had.
async fn histories(store: &Store, operations: Vec<Operation>) -> BTreeMap<String, Vec<RolloutStatus>> {
    let mut attempts: Vec<fulgurite_types::AttemptedRollout> = Vec::new();
    let mut histories: BTreeMap<String, Vec<RolloutStatus>> = BTreeMap::new();
    for (number, operation) in operations.into_iter().enumerate() {
        match operation {
            Operation::Enqueue => {
                let config = RolloutConfig { timeout_seconds: Some(1e5), ..retried() };
                store.rollouts().enqueue(vec![NewRollout { config: Some(config), ..task(number) }]).await.unwrap();
            }
            Operation::Dequeue => attempts.extend(store.rollouts().dequeue(1, Some("w"), NO_WAIT).await.unwrap()),
            Operation::Report(index, status) => {
                if let Some(claimed) = attempts.get(index) {
                    let attempt = &claimed.attempt;
                    let update = AttemptUpdate::status(status);
                    store.attempts().report(&attempt.rollout_id, &attempt.attempt_id, update).await.unwrap();
                }
            }
            Operation::HearOf(index) => {
                if let Some(claimed) = attempts.get(index) {
                    let call = generation(&format!("g{number}"), claimed, &[1], &[2]);
                    store.recording().record(call).await.unwrap();
                }
            }
            Operation::Release => {
                store.workers().release("w").await.unwrap();
            }
            Operation::Watchdog => {
                store.attempts().scan_watchdog_at(fulgurite_types::time::now() + 1e6).await.unwrap();
            }
            Operation::Cancel(index) => {
                let waiting = RolloutFilter { status_in: Some(vec![RolloutStatus::Queuing]), ..Default::default() };
                if let Some((rollout, _)) = store.rollouts().query(&waiting).await.unwrap().items.get(index) {
                    let update = RolloutUpdate { status: Some(RolloutStatus::Cancelled), ..RolloutUpdate::default() };
                    store.rollouts().update(&rollout.rollout_id, update).await.unwrap();
                }
            }
        }
        for (rollout, _) in store.rollouts().query(&RolloutFilter::default()).await.unwrap().items {
            let history = histories.entry(rollout.rollout_id).or_default();
            if history.last() != Some(&rollout.status) {
                history.push(rollout.status);
            }
        }
    }
    histories
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    #[test]
    fn a_rollout_ends_at_most_once(operations in prop::collection::vec(operation(), 1..40)) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = TestStore::new().await;
            for (rollout_id, history) in histories(&store, operations).await {
                let ends = history.iter().filter(|status| status.is_finished()).count();
                assert!(ends <= 1, "{rollout_id}: {history:?}");
                assert_eq!(ends == 1, history.last().unwrap().is_finished(), "{rollout_id}: {history:?}");
                let attempts = store.attempts().of_rollout(&rollout_id).await.unwrap();
                let numbers: Vec<_> = attempts.iter().map(|attempt| attempt.sequence_id).collect();
                assert_eq!(numbers, (1..=attempts.len() as u32).collect::<Vec<_>>());
                assert!(attempts.len() <= 2, "{rollout_id} has {} attempts", attempts.len());
            }
        });
    }
}

#[tokio::test]
async fn whoever_remembers_attempts_is_told_of_their_end_once_it_is_committed() {
    let store = TestStore::new().await;
    let (sender, mut ends) = tokio::sync::mpsc::unbounded_channel();
    store.notify_of_ended_attempts(move |rollout_id, attempt_id| {
        sender.send((rollout_id.to_owned(), attempt_id.to_owned())).unwrap();
    });
    let attempted = store.start().await;
    let (rollout_id, attempt_id) = (attempted.rollout.rollout_id.as_str(), attempted.attempt.attempt_id.as_str());
    store.attempts().update(rollout_id, attempt_id, AttemptUpdate::status(AttemptStatus::Running)).await.unwrap();
    let bad = AttemptUpdate { last_heartbeat_time: Some(f64::NAN), ..AttemptUpdate::status(AttemptStatus::Failed) };
    store.attempts().update(rollout_id, attempt_id, bad).await.unwrap_err();
    assert!(ends.try_recv().is_err());
    store.attempts().update(rollout_id, attempt_id, AttemptUpdate::status(AttemptStatus::Failed)).await.unwrap();
    assert_eq!(ends.try_recv().unwrap(), (rollout_id.to_owned(), attempt_id.to_owned()));
    assert!(ends.try_recv().is_err());
}
