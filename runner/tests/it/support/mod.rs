//! A scripted server: hands out the tasks it is given and remembers all that a runner tells it.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What the server holds, and what it was told.
#[derive(Default)]
pub struct Record {
    /// Tasks still to hand out.
    pub queue: VecDeque<Value>,
    /// How many tasks were handed out: the n-th is rollout `ro-n`, its attempt `at-n`.
    pub handed_out: usize,
    /// The keys of the tasks in the next reply, if the server has any.
    pub keys: Option<String>,
    /// The keys of their graders.
    pub grader_keys: Option<String>,
    /// What every dequeue calls the grader.
    pub graders: Vec<Value>,
    /// The `limit` of every dequeue.
    pub limits: Vec<u64>,
    /// Attempt id and body of every report of how an attempt ended.
    pub endings: Vec<(String, Value)>,
    /// Attempt id and body of every reward.
    pub rewards: Vec<(String, Value)>,
    /// `Authorization` and `Idempotency-Key` of every reward, those whose answer was lost included.
    pub reward_keys: Vec<[Option<String>; 2]>,
    /// This many rewards are taken and then answered 502.
    pub lost_rewards: usize,
    /// The worker id of every release.
    pub releases: Vec<String>,
    /// The `Authorization` header of every release.
    pub authorizations: Vec<String>,
    /// The rewards that every attempt has, which others have posted.
    pub posted_rewards: Vec<Value>,
    /// This many requests are answered 503 first.
    pub outages: usize,
    /// This many dequeues take tasks off the queue and then answer 502.
    pub lost_replies: usize,
    /// The attempt ids of every heartbeat.
    pub heartbeats: Vec<Vec<String>>,
    /// The status of attempts that have ended without the runner, by attempt id.
    pub ended_elsewhere: HashMap<String, &'static str>,
    /// Rewards are refused.
    pub refuse_rewards: bool,
}

type Shared = Arc<Mutex<Record>>;

/// A running scripted server, stopped when dropped.
pub struct Scripted {
    pub url: String,
    record: Shared,
    serving: JoinHandle<()>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Scripted {
    /// Serves `tasks`.
    pub async fn start(tasks: impl IntoIterator<Item = Value>) -> Self {
        let record = Shared::default();
        lock(&record).queue.extend(tasks);
        let routes = Router::new()
            .route("/v1/agl/queues/rollouts/dequeue", post(dequeue))
            .route("/v1/fulgurite/rollouts/{rollout}/attempts/{attempt}/report", post(report))
            .route("/v1/fulgurite/attempts/heartbeat", post(heartbeat))
            .route("/rollout/{rollout}/attempt/{attempt}/reward", get(rewards).post(reward))
            .route("/v1/fulgurite/workers/{worker}/release", post(release))
            .with_state(Arc::clone(&record));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, record, serving }
    }

    pub fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }
}

fn lock(record: &Shared) -> MutexGuard<'_, Record> {
    record.lock().unwrap()
}

/// The server's answer while it is out of order.
fn outage(record: &mut Record) -> Option<Response> {
    record.outages = record.outages.checked_sub(1)?;
    Some(StatusCode::SERVICE_UNAVAILABLE.into_response())
}

async fn dequeue(State(shared): State<Shared>, Json(body): Json<Value>) -> Response {
    let limit = body["limit"].as_u64().unwrap();
    if lock(&shared).queue.is_empty() && body["wait_seconds"].as_f64().unwrap() > 0.0 {
        sleep(Duration::from_millis(5)).await;
    }
    let mut record = lock(&shared);
    if let Some(answer) = outage(&mut record) {
        return answer;
    }
    record.limits.push(limit);
    record.graders.push(body["grader"].clone());
    let mut rollouts = Vec::new();
    while (rollouts.len() as u64) < limit
        && let Some(task) = record.queue.pop_front()
    {
        record.handed_out += 1;
        let n = record.handed_out;
        rollouts.push(attempted_rollout(n, &task));
    }
    if let Some(left) = record.lost_replies.checked_sub(1) {
        record.lost_replies = left;
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let mut response = Json(rollouts).into_response();
    for (name, keys) in [("x-fulgurite-key", &record.keys), ("x-fulgurite-grader-key", &record.grader_keys)] {
        if let Some(keys) = keys {
            response.headers_mut().insert(name, keys.parse().unwrap());
        }
    }
    response
}

/// The n-th rollout to be handed out, every field of it, as the server writes it.
fn attempted_rollout(n: usize, task: &Value) -> Value {
    let rollout_id = format!("ro-{n}");
    json!({
        "rollout_id": rollout_id, "input": task, "start_time": 1.5, "end_time": null, "mode": "train", "resources_id": null,
        "status": "preparing", "metadata": {},
        "config": {"timeout_seconds": null, "unresponsive_seconds": null, "max_attempts": 1, "retry_condition": []},
        "attempt": {
            "rollout_id": rollout_id, "attempt_id": format!("at-{n}"), "sequence_id": 1, "start_time": 2.5, "end_time": null,
            "status": "preparing", "worker_id": "worker", "last_heartbeat_time": null, "metadata": null,
        },
    })
}

async fn report(
    State(shared): State<Shared>,
    Path((rollout, attempt)): Path<(String, String)>,
    Json(body): Json<Value>,
) -> Response {
    let mut record = lock(&shared);
    if let Some(answer) = outage(&mut record) {
        return answer;
    }
    assert_eq!(rollout.replace("ro", "at"), attempt);
    let status = record.ended_elsewhere.get(&attempt).map_or(body["status"].clone(), |status| json!(status));
    let reply = json!({"rollout_id": rollout, "attempt_id": attempt, "status": status});
    record.endings.push((attempt, body));
    Json(reply).into_response()
}

async fn heartbeat(State(shared): State<Shared>, Json(body): Json<Value>) -> Response {
    let mut record = lock(&shared);
    if let Some(answer) = outage(&mut record) {
        return answer;
    }
    let mut known = body["attempts"].as_array().unwrap().clone();
    let mut named = Vec::new();
    for attempt in &mut known {
        let id = attempt["attempt_id"].as_str().unwrap().to_owned();
        attempt["status"] = json!(record.ended_elsewhere.get(&id).copied().unwrap_or("running"));
        named.push(id);
    }
    named.sort();
    record.heartbeats.push(named);
    Json(known).into_response()
}

async fn rewards(State(shared): State<Shared>) -> Json<Vec<Value>> {
    Json(lock(&shared).posted_rewards.clone())
}

async fn reward(
    State(shared): State<Shared>,
    Path((_, attempt)): Path<(String, String)>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let mut record = lock(&shared);
    let header = |name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    record.reward_keys.push(["authorization", "idempotency-key"].map(header));
    if let Some(left) = record.lost_rewards.checked_sub(1) {
        record.lost_rewards = left;
        return StatusCode::BAD_GATEWAY.into_response();
    }
    if record.refuse_rewards {
        return (StatusCode::BAD_REQUEST, "too late").into_response();
    }
    record.rewards.push((attempt, body));
    Json(json!({})).into_response()
}

async fn release(State(shared): State<Shared>, Path(worker): Path<String>, headers: HeaderMap) -> Response {
    let mut record = lock(&shared);
    if let Some(answer) = outage(&mut record) {
        return answer;
    }
    record.releases.push(worker);
    let authorization = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
    record.authorizations.extend(authorization);
    Json(json!({})).into_response()
}
