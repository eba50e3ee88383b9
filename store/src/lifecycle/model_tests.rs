//! The store against a small model of Agent-lightning's life of a rollout: after every operation of a random row of
//! them, the statuses, the queue and the workers are the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fulgurite_types::{
    Attempt, AttemptStatus, AttemptUpdate, NewRollout, Object, Page, RolloutConfig, RolloutStatus, RolloutUpdate, Span,
    SpanStatus, StatusCode, WorkerFilter, WorkerStatus,
};
use proptest::prelude::*;
use sqlx::Row;

use crate::Store;
use crate::lifecycle::propagate;
use crate::testing::TestStore;
use fulgurite_types::time::now;

/// Limits that are far from how long a test takes, and times at which one or both are over.
const UNRESPONSIVE_SECONDS: f64 = 1e5;
const TIMEOUT_SECONDS: f64 = 1e7;
const SILENT_AFTER: f64 = 1e6;
const OVER_AFTER: f64 = 1e8;

#[derive(Clone, Debug)]
enum Operation {
    Enqueue(Config),
    StartRollout(Config, Option<&'static str>),
    Dequeue(usize, Option<&'static str>),
    StartAttempt(usize, Option<&'static str>),
    UpdateAttempt(usize, usize, AttemptStatus),
    UpdateRollout(usize, RolloutStatus),
    AddSpan(usize, usize),
    Scan(f64),
}

#[derive(Clone, Debug)]
struct Config {
    max_attempts: u32,
    retry_condition: Vec<AttemptStatus>,
    is_watched: bool,
}

impl From<&Config> for RolloutConfig {
    fn from(config: &Config) -> Self {
        Self {
            timeout_seconds: config.is_watched.then_some(TIMEOUT_SECONDS),
            unresponsive_seconds: config.is_watched.then_some(UNRESPONSIVE_SECONDS),
            max_attempts: config.max_attempts,
            retry_condition: config.retry_condition.clone(),
        }
    }
}

fn operation() -> impl Strategy<Value = Operation> {
    let config = || {
        let retries = prop::sample::subsequence(AttemptStatus::ALL, 0..=AttemptStatus::ALL.len());
        (1..4_u32, retries, any::<bool>()).prop_map(|(max_attempts, retry_condition, is_watched)| Config {
            max_attempts,
            retry_condition,
            is_watched,
        })
    };
    let worker = || prop::sample::select(&[None, Some("v"), Some("w")][..]);
    let place = || 0..6_usize;
    prop_oneof![
        2 => config().prop_map(Operation::Enqueue),
        1 => (config(), worker()).prop_map(|(config, worker)| Operation::StartRollout(config, worker)),
        3 => (0..3_usize, worker()).prop_map(|(limit, worker)| Operation::Dequeue(limit, worker)),
        1 => (place(), worker()).prop_map(|(rollout, worker)| Operation::StartAttempt(rollout, worker)),
        4 => (place(), place(), prop::sample::select(AttemptStatus::ALL))
            .prop_map(|(rollout, attempt, status)| Operation::UpdateAttempt(rollout, attempt, status)),
        1 => (place(), prop::sample::select(RolloutStatus::ALL))
            .prop_map(|(rollout, status)| Operation::UpdateRollout(rollout, status)),
        3 => (place(), place()).prop_map(|(rollout, attempt)| Operation::AddSpan(rollout, attempt)),
        1 => prop::sample::select(&[SILENT_AFTER, OVER_AFTER][..]).prop_map(Operation::Scan),
    ]
}

/// Which attempt: places of its rollout and of itself.
type Place = (usize, usize);

#[derive(Default)]
struct Model {
    rollouts: Vec<Rollout>,
    queue: Vec<usize>,
    workers: BTreeMap<&'static str, (WorkerStatus, Option<Place>)>,
}

struct Rollout {
    status: RolloutStatus,
    config: RolloutConfig,
    attempts: Vec<(AttemptStatus, Option<&'static str>)>,
}

impl Model {
    fn add(&mut self, config: &Config, status: RolloutStatus) -> usize {
        self.rollouts.push(Rollout { status, config: config.into(), attempts: Vec::new() });
        let place = self.rollouts.len() - 1;
        if status.is_queued() {
            self.queue.push(place);
        }
        place
    }

    fn set_status(&mut self, rollout: usize, status: RolloutStatus) {
        self.rollouts[rollout].status = status;
        if !status.is_queued() {
            self.queue.retain(|queued| *queued != rollout);
        } else if !self.queue.contains(&rollout) {
            self.queue.push(rollout);
        }
    }

    fn hand_out(&mut self, rollout: usize, worker: Option<&'static str>) {
        self.set_status(rollout, RolloutStatus::Preparing);
        let attempts = &mut self.rollouts[rollout].attempts;
        attempts.push((AttemptStatus::Preparing, worker));
        let place = (rollout, attempts.len() - 1);
        if let Some(worker) = worker {
            self.workers.insert(worker, (WorkerStatus::Busy, Some(place)));
        }
    }

    fn dequeue(&mut self, limit: usize, worker: Option<&'static str>) {
        let waiting: Vec<usize> = self.queue.iter().copied().take(limit).collect();
        if let Some(worker) = worker.filter(|_| limit > 0 && waiting.is_empty()) {
            self.workers.insert(worker, (WorkerStatus::Idle, None));
        }
        waiting.into_iter().for_each(|rollout| self.hand_out(rollout, worker));
    }

    fn update_attempt(&mut self, place: Place, status: AttemptStatus) {
        let (rollout, attempt) = place;
        let (known, worker) = &mut self.rollouts[rollout].attempts[attempt];
        *known = status;
        if let Some(worker) = *worker {
            self.follow(worker, place, status);
        }
        if attempt + 1 == self.rollouts[rollout].attempts.len() {
            let config = &self.rollouts[rollout].config;
            self.set_status(rollout, propagate(status, attempt as u32 + 1, config));
        }
    }

    /// A worker that has moved to another attempt is left alone when an earlier one ends.
    fn follow(&mut self, worker: &'static str, place: Place, status: AttemptStatus) {
        let of_worker = self.workers.entry(worker).or_insert((WorkerStatus::Unknown, None));
        match status {
            AttemptStatus::Preparing | AttemptStatus::Running => *of_worker = (WorkerStatus::Busy, Some(place)),
            _ if of_worker.1.is_some_and(|current| current != place) => {}
            AttemptStatus::Succeeded | AttemptStatus::Failed => *of_worker = (WorkerStatus::Idle, None),
            AttemptStatus::Timeout | AttemptStatus::Unresponsive => *of_worker = (WorkerStatus::Unknown, None),
        }
    }

    fn record_activity(&mut self, (rollout, attempt): Place) {
        let is_latest = attempt + 1 == self.rollouts[rollout].attempts.len();
        let status = &mut self.rollouts[rollout].attempts[attempt].0;
        if matches!(status, AttemptStatus::Preparing | AttemptStatus::Unresponsive) {
            *status = AttemptStatus::Running;
        }
        let runs = *status == AttemptStatus::Running;
        let waits = matches!(self.rollouts[rollout].status, RolloutStatus::Preparing | RolloutStatus::Requeuing);
        if runs && is_latest && waits {
            self.set_status(rollout, RolloutStatus::Running);
        }
    }

    fn scan(&mut self, after: f64) {
        let status = if after > TIMEOUT_SECONDS { AttemptStatus::Timeout } else { AttemptStatus::Unresponsive };
        for rollout in 0..self.rollouts.len() {
            let Rollout { status: stands, config, attempts } = &self.rollouts[rollout];
            let is_under_way = matches!(stands, RolloutStatus::Preparing | RolloutStatus::Running);
            let has_ended = attempts.last().is_none_or(|(status, _)| status.is_ended());
            if is_under_way && config.timeout_seconds.is_some() && !has_ended {
                self.update_attempt((rollout, attempts.len() - 1), status);
            }
        }
    }
}

/// Does the same to both.
async fn step(store: &Store, model: &mut Model, number: usize, operation: Operation) {
    let known = |model: &Model, rollout: usize| rollout.checked_rem(model.rollouts.len());
    let attempt_of = |model: &Model, rollout: usize, attempt: usize| {
        let rollout = known(model, rollout)?;
        Some((rollout, attempt.checked_rem(model.rollouts[rollout].attempts.len())?))
    };
    let new = |model: &Model, config: &Config| NewRollout {
        rollout_id: Some(rollout_id(model.rollouts.len())),
        config: Some(config.into()),
        ..NewRollout::default()
    };
    match operation {
        Operation::Enqueue(config) => {
            store.rollouts().enqueue(vec![new(model, &config)]).await.unwrap();
            model.add(&config, RolloutStatus::Queuing);
        }
        Operation::StartRollout(config, worker) => {
            store.rollouts().start(new(model, &config), worker).await.unwrap();
            let rollout = model.add(&config, RolloutStatus::Preparing);
            model.hand_out(rollout, worker);
        }
        Operation::Dequeue(limit, worker) => {
            store.rollouts().dequeue(limit, worker, Duration::ZERO).await.unwrap();
            model.dequeue(limit, worker);
        }
        Operation::StartAttempt(rollout, worker) => {
            if let Some(rollout) = known(model, rollout) {
                store.rollouts().start_attempt(&rollout_id(rollout), worker).await.unwrap();
                model.hand_out(rollout, worker);
            }
        }
        Operation::UpdateRollout(rollout, status) => {
            if let Some(rollout) = known(model, rollout) {
                let update = RolloutUpdate { status: Some(status), ..RolloutUpdate::default() };
                store.rollouts().update(&rollout_id(rollout), update).await.unwrap();
                model.set_status(rollout, status);
            }
        }
        Operation::UpdateAttempt(rollout, attempt, status) => {
            if let Some(place) = attempt_of(model, rollout, attempt) {
                let id = attempt_id(store, place).await;
                store.attempts().update(&rollout_id(place.0), id, AttemptUpdate::status(status)).await.unwrap();
                model.update_attempt(place, status);
            }
        }
        Operation::AddSpan(rollout, attempt) => {
            if let Some(place) = attempt_of(model, rollout, attempt) {
                let span = span(&rollout_id(place.0), &attempt_id(store, place).await, number);
                store.spans().add(vec![span]).await.unwrap();
                model.record_activity(place);
            }
        }
        Operation::Scan(after) => {
            store.attempts().scan_watchdog_at(now() + after).await.unwrap();
            model.scan(after);
        }
    }
}

fn rollout_id(place: usize) -> String {
    format!("ro-{place}")
}

async fn attempt_id(store: &Store, (rollout, attempt): Place) -> String {
    store.attempts().of_rollout(&rollout_id(rollout)).await.unwrap().swap_remove(attempt).attempt_id
}

fn span(rollout_id: &str, attempt_id: &str, number: usize) -> Span {
    Span {
        rollout_id: rollout_id.into(),
        attempt_id: attempt_id.into(),
        sequence_id: number as u64 + 1,
        trace_id: "0af7651916cd43dd8448eb211c80319c".into(),
        span_id: format!("{number:016x}"),
        parent_id: None,
        name: "work".into(),
        status: SpanStatus { status_code: StatusCode::Ok, description: None, extra: Object::new() },
        attributes: Object::new(),
        events: Vec::new(),
        links: Vec::new(),
        start_time: None,
        end_time: None,
        context: None,
        parent: None,
        resource: Arc::default(),
        extra: Object::new(),
    }
}

async fn compare(store: &Store, model: &Model) {
    let mut places: BTreeMap<(String, String), Place> = BTreeMap::new();
    for (place, expected) in model.rollouts.iter().enumerate() {
        let (rollout, latest) = store.rollouts().get(&rollout_id(place)).await.unwrap().unwrap();
        let known = store.rollouts().cached(&rollout_id(place)).await.unwrap().unwrap();
        let stand = |latest: &Option<Attempt>| {
            latest
                .clone()
                .map(|attempt| Attempt { last_heartbeat_time: attempt.last_heartbeat_time.map(|_| 0.0), ..attempt })
        };
        assert_eq!(
            (&known.0.status, &known.0.metadata, stand(&known.1)),
            (&rollout.status, &rollout.metadata, stand(&latest))
        );
        assert_eq!(rollout.status, expected.status, "{}", rollout.rollout_id);
        assert_eq!(rollout.end_time.is_some(), rollout.status.is_finished(), "{}", rollout.rollout_id);
        let attempts = store.attempts().of_rollout(&rollout.rollout_id).await.unwrap();
        for (number, attempt) in attempts.iter().enumerate() {
            assert_eq!(attempt.end_time.is_some(), attempt.status.is_ended(), "{attempt:?}");
            places.insert((attempt.rollout_id.clone(), attempt.attempt_id.clone()), (place, number));
        }
        let statuses: Vec<_> = attempts.iter().map(|attempt| (attempt.status, attempt.worker_id.as_deref())).collect();
        assert_eq!(statuses, expected.attempts, "{}", rollout.rollout_id);
    }
    let queue = sqlx::query("SELECT rollout_id FROM rollouts WHERE queue_position IS NOT NULL ORDER BY queue_position")
        .fetch_all(&mut *store.database().reader().await.unwrap())
        .await
        .unwrap();
    let queue: Vec<String> = queue.iter().map(|row| row.get(0)).collect();
    assert_eq!(queue, model.queue.iter().copied().map(rollout_id).collect::<Vec<_>>());
    let by_id = Page { sort_by: Some("worker_id".into()), ..Page::default() };
    let workers = store.workers().query(&WorkerFilter { page: by_id, ..WorkerFilter::default() }).await.unwrap().items;
    let workers: Vec<_> = workers
        .into_iter()
        .map(|worker| {
            let current = worker.current_rollout_id.zip(worker.current_attempt_id);
            (worker.worker_id, (worker.status, current.map(|names| places[&names])))
        })
        .collect();
    let expected: Vec<_> = model.workers.iter().map(|(id, state)| ((*id).to_owned(), *state)).collect();
    assert_eq!(workers, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    #[test]
    fn the_store_does_what_the_model_does(operations in prop::collection::vec(operation(), 1..40)) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = TestStore::new().await;
            let mut model = Model::default();
            for (number, operation) in operations.into_iter().enumerate() {
                step(&store, &mut model, number, operation).await;
                compare(&store, &model).await;
            }
            // Whatever it did, its rows' checksums have followed.
            assert_eq!(store.housekeeping().check(&mut |event| println!("{event:?}")).await.unwrap(), 0);
        });
    }
}
