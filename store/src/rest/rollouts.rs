use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::error::RestError;
use super::input::{Body, Paging, field, parameters, seconds, value_field};
use super::{Created, Reply};
use crate::Store;
use crate::model::{
    Attempt, AttemptUpdate, AttemptedRollout, FilterLogic, NewRollout, Paginated, Rollout, RolloutFilter, RolloutMode,
    RolloutStatus, RolloutUpdate,
};

type Pairs = Query<Vec<(String, String)>>;

/// A rollout with its latest attempt, if there is one; clients tell the two apart by the key `attempt`.
#[derive(Serialize)]
pub(super) struct RolloutReply {
    #[serde(flatten)]
    rollout: Rollout,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<Attempt>,
}

impl From<(Rollout, Option<Attempt>)> for RolloutReply {
    fn from((rollout, attempt): (Rollout, Option<Attempt>)) -> Self {
        Self { rollout, attempt }
    }
}

#[derive(Deserialize)]
struct EnqueueRequest {
    rollouts: Vec<NewRollout>,
}

pub(super) async fn enqueue(State(store): State<Store>, body: Body) -> Created<Vec<Rollout>> {
    let request: EnqueueRequest = body.parse()?;
    Ok((StatusCode::CREATED, Json(store.enqueue_rollouts(request.rollouts).await?)))
}

#[derive(Deserialize)]
#[serde(default)]
struct DequeueRequest {
    limit: i64,
    worker_id: Option<String>,
    wait_seconds: Option<f64>,
}

impl Default for DequeueRequest {
    fn default() -> Self {
        Self { limit: 1, worker_id: None, wait_seconds: None }
    }
}

pub(super) async fn dequeue(State(store): State<Store>, body: Body) -> Reply<Vec<AttemptedRollout>> {
    let request: DequeueRequest = body.parse_or_default()?;
    let wait = request.wait_seconds.map_or(Ok(Duration::ZERO), |wait| seconds("wait_seconds", wait))?;
    let limit = usize::try_from(request.limit).unwrap_or(0);
    Ok(Json(store.dequeue_rollouts(limit, request.worker_id.as_deref(), wait).await?))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkerField {
    worker_id: Option<String>,
}

pub(super) async fn start(State(store): State<Store>, body: Body) -> Created<AttemptedRollout> {
    let worker: WorkerField = body.parse_or_default()?;
    let started = store.start_rollout(body.parse()?, worker.worker_id.as_deref()).await?;
    Ok((StatusCode::CREATED, Json(started)))
}

#[derive(Deserialize)]
pub(super) struct RolloutSearch {
    status_in: Option<Vec<RolloutStatus>>,
    rollout_id_in: Option<Vec<String>>,
    rollout_id_contains: Option<String>,
    filter_logic: Option<FilterLogic>,
    run_id: Option<String>,
    step: Option<i64>,
    mode: Option<RolloutMode>,
    #[serde(flatten)]
    paging: Paging,
}

pub(super) async fn list(State(store): State<Store>, pairs: Pairs) -> Reply<Paginated<RolloutReply>> {
    query(&store, parameters(pairs)?).await
}

pub(super) async fn search(State(store): State<Store>, body: Body) -> Reply<Paginated<RolloutReply>> {
    query(&store, body.parse()?).await
}

async fn query(store: &Store, search: RolloutSearch) -> Reply<Paginated<RolloutReply>> {
    let filter = RolloutFilter {
        status_in: search.status_in,
        rollout_id_in: search.rollout_id_in,
        rollout_id_contains: search.rollout_id_contains,
        filter_logic: search.filter_logic,
        run_id: search.run_id,
        step: search.step,
        mode: search.mode,
        page: search.paging.page()?,
    };
    let Paginated { items, limit, offset, total } = store.query_rollouts(&filter).await?;
    Ok(Json(Paginated { items: items.into_iter().map(RolloutReply::from).collect(), limit, offset, total }))
}

pub(super) async fn find(State(store): State<Store>, Path(rollout_id): Path<String>) -> Reply<Option<RolloutReply>> {
    Ok(Json(store.get_rollout(&rollout_id).await?.map(RolloutReply::from)))
}

pub(super) async fn update(State(store): State<Store>, Path(rollout_id): Path<String>, body: Body) -> Reply<Rollout> {
    let object = body.object()?;
    let update = RolloutUpdate {
        input: object.get("input").cloned(),
        mode: field(&object, "mode")?,
        resources_id: field(&object, "resources_id")?,
        status: value_field(&object, "status")?,
        config: value_field(&object, "config")?,
        metadata: field(&object, "metadata")?,
    };
    Ok(Json(store.update_rollout(&rollout_id, update).await?))
}

pub(super) async fn start_attempt(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    body: Body,
) -> Created<AttemptedRollout> {
    let worker: WorkerField = body.parse_or_default()?;
    Ok((StatusCode::CREATED, Json(store.start_attempt(&rollout_id, worker.worker_id.as_deref()).await?)))
}

pub(super) async fn list_attempts(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    pairs: Pairs,
) -> Reply<Paginated<Attempt>> {
    attempts(&store, &rollout_id, parameters(pairs)?).await
}

pub(super) async fn search_attempts(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    body: Body,
) -> Reply<Paginated<Attempt>> {
    attempts(&store, &rollout_id, body.parse_or_default()?).await
}

async fn attempts(store: &Store, rollout_id: &str, paging: Paging) -> Reply<Paginated<Attempt>> {
    let page = paging.page()?;
    Ok(Json(store.query_attempts(rollout_id, &page).await?))
}

pub(super) async fn latest_attempt(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
) -> Reply<Option<Attempt>> {
    Ok(Json(store.get_attempt(&rollout_id, "latest").await?))
}

pub(super) async fn update_latest_attempt(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    body: Body,
) -> Reply<Attempt> {
    Ok(Json(store.update_attempt(&rollout_id, "latest", attempt_update(body)?).await?))
}

pub(super) async fn update_attempt(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
    body: Body,
) -> Reply<Attempt> {
    Ok(Json(store.update_attempt(&rollout_id, attempt_id, attempt_update(body)?).await?))
}

pub(super) async fn report_attempt(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
    body: Body,
) -> Reply<Attempt> {
    Ok(Json(store.report_attempt(&rollout_id, &attempt_id, attempt_update(body)?).await?))
}

fn attempt_update(body: Body) -> Result<AttemptUpdate, RestError> {
    let object = body.object()?;
    Ok(AttemptUpdate {
        status: value_field(&object, "status")?,
        worker_id: value_field(&object, "worker_id")?,
        last_heartbeat_time: value_field(&object, "last_heartbeat_time")?,
        metadata: value_field(&object, "metadata")?,
    })
}

#[derive(Deserialize)]
struct HeartbeatRequest {
    attempts: Vec<AttemptName>,
}

#[derive(Deserialize)]
struct AttemptName {
    rollout_id: String,
    attempt_id: String,
}

pub(super) async fn heartbeat(State(store): State<Store>, body: Body) -> Reply<Vec<Attempt>> {
    let request: HeartbeatRequest = body.parse()?;
    let names = request.attempts.into_iter().map(|name| (name.rollout_id, name.attempt_id)).collect();
    Ok(Json(store.heartbeat_attempts(names).await?))
}

#[derive(Deserialize)]
struct WaitRequest {
    rollout_ids: Vec<String>,
    #[serde(default)]
    timeout: Option<f64>,
}

pub(super) async fn wait(State(store): State<Store>, body: Body) -> Reply<Vec<Rollout>> {
    let request: WaitRequest = body.parse()?;
    let timeout = request.timeout.map(|timeout| seconds("timeout", timeout)).transpose()?;
    Ok(Json(store.wait_for_rollouts(&request.rollout_ids, timeout).await?))
}
