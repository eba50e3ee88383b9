use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use fulgurite_api::conventions::attempt_update::attempt_update;
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::input::{Body, Holder, Paging, Path, field, parameters, seconds, value_field};
use fulgurite_api::conventions::lists;
use fulgurite_api::conventions::serving::{Created, Reply};
use fulgurite_api::conventions::shape::{Field, Shape, Shaped};
use fulgurite_api::paged;
use fulgurite_store::{Store, StoreError};
use fulgurite_types::{
    Attempt, AttemptStatus, AttemptedRollout, FilterLogic, NewRollout, Paginated, Rollout, RolloutFilter, RolloutMode,
    RolloutStatus, RolloutUpdate,
};
use futures::stream::try_unfold;
use serde::{Deserialize, Serialize};

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

const CONFIG: Shape = Shape::Record(&[
    Field::nullable("timeout_seconds", Shape::Number),
    Field::nullable("unresponsive_seconds", Shape::Number),
    Field::optional("max_attempts", Shape::Integer(1)),
    Field::optional("retry_condition", Shape::List(&Shape::Word(AttemptStatus::WORDS))),
]);

const NEW_ROLLOUT: Shape = Shape::Record(&[
    Field::required_or_null("input", Shape::Any),
    Field::nullable("mode", Shape::Word(RolloutMode::WORDS)),
    Field::nullable("resources_id", Shape::Text),
    Field::nullable("config", CONFIG),
    Field::nullable("metadata", Shape::Map(&Shape::Any)),
    Field::nullable("rollout_id", Shape::Text),
    // Read only where a rollout is started at once.
    Field::nullable("worker_id", Shape::Text),
]);

#[derive(Deserialize)]
struct EnqueueRequest {
    rollouts: Vec<NewRollout>,
}

impl Shaped for EnqueueRequest {
    const SHAPE: Shape = Shape::Record(&[Field::required("rollouts", Shape::List(&NEW_ROLLOUT))]);
}

pub(super) async fn enqueue(State(store): State<Store>, body: Body) -> Created<Vec<Rollout>> {
    let request: EnqueueRequest = body.parse()?;
    Ok((StatusCode::CREATED, Json(store.rollouts().enqueue(request.rollouts).await?)))
}

#[derive(Deserialize)]
#[serde(default)]
struct DequeueRequest {
    limit: i64,
    worker_id: Option<String>,
    wait_seconds: Option<f64>,
    grader: Option<String>,
    lease_seconds: Option<f64>,
}

impl Shaped for DequeueRequest {
    const SHAPE: Shape = Shape::Record(&[
        Field::optional("limit", Shape::Integer(i64::MIN)),
        Field::nullable("worker_id", Shape::Text),
        Field::nullable("wait_seconds", Shape::Number),
        Field::nullable("grader", Shape::Text),
        Field::nullable("lease_seconds", Shape::Number),
    ]);
}

impl Default for DequeueRequest {
    fn default() -> Self {
        Self { limit: 1, worker_id: None, wait_seconds: None, grader: None, lease_seconds: None }
    }
}

/// The header in which the keys of the attempts in a reply are handed out, in their order.
const KEY_HEADER: HeaderName = HeaderName::from_static("x-fulgurite-key");
/// The header in which the keys of their graders are, in the same order, if whoever took the attempts named a grader.
const GRADER_KEY_HEADER: HeaderName = HeaderName::from_static("x-fulgurite-grader-key");
/// Many clients take no more header lines than a hundred, ours included, and some no line longer than 8 KB.
const KEY_LINES: usize = 32;
const KEYS_OF_A_LINE: usize = 16;

/// The keys for the agents of attempts, so that each opens its own door and no other, and for their graders.
async fn keys(store: &Store, attempts: &[AttemptedRollout]) -> Result<HeaderMap, RestError> {
    let mut headers = HeaderMap::new();
    if attempts.is_empty() {
        return Ok(headers);
    }
    let issued = store.issued_keys().await?;
    let attempts: Vec<&Attempt> = attempts.iter().map(|attempted| &attempted.attempt).collect();
    let agents: Vec<_> = attempts.iter().map(|of| issued.attempt_key(&of.rollout_id, &of.attempt_id)).collect();
    append_keys(&mut headers, KEY_HEADER, &agents);
    let graded = attempts.iter().filter(|attempt| attempt.grader.is_some());
    let graders: Vec<_> = graded.map(|of| issued.grader_key(&of.rollout_id, &of.attempt_id)).collect();
    append_keys(&mut headers, GRADER_KEY_HEADER, &graders);
    Ok(headers)
}

fn append_keys(headers: &mut HeaderMap, name: HeaderName, keys: &[String]) {
    for line in keys.chunks(KEYS_OF_A_LINE.max(keys.len().div_ceil(KEY_LINES))) {
        // A key is made of letters, digits, `-`, `_` and `.`.
        if let Ok(mut line) = HeaderValue::from_str(&line.join(",")) {
            line.set_sensitive(true);
            headers.append(name.clone(), line);
        }
    }
}

pub(super) async fn dequeue(
    State(store): State<Store>,
    holder: Holder,
    body: Body,
) -> Result<(HeaderMap, Json<Vec<AttemptedRollout>>), RestError> {
    let request: DequeueRequest = body.or_empty().parse()?;
    holder.check_worker(request.worker_id.as_deref())?;
    let wait = request.wait_seconds.map_or(Ok(Duration::ZERO), |wait| seconds("wait_seconds", wait))?;
    let limit = usize::try_from(request.limit).unwrap_or(0);
    let (worker_id, grader) = (request.worker_id.as_deref(), request.grader.as_deref());
    if grader.is_some_and(str::is_empty) {
        return Err(StoreError::invalid("grader", "must not be empty").into());
    }
    let lease = request.lease_seconds.map(|lease| seconds("lease_seconds", lease)).transpose()?;
    let attempts = store.rollouts().dequeue_leased(limit, worker_id, grader, wait, lease).await?;
    Ok((keys(&store, &attempts).await?, Json(attempts)))
}

type Started = Result<(StatusCode, HeaderMap, Json<AttemptedRollout>), RestError>;

/// The reply to a client that started an attempt itself.
async fn started(store: &Store, attempted: AttemptedRollout) -> Started {
    Ok((StatusCode::CREATED, keys(store, std::slice::from_ref(&attempted)).await?, Json(attempted)))
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WorkerField {
    worker_id: Option<String>,
}

impl Shaped for WorkerField {
    const SHAPE: Shape = Shape::Record(&[Field::nullable("worker_id", Shape::Text)]);
}

#[derive(Deserialize)]
struct StartRequest {
    #[serde(flatten)]
    rollout: NewRollout,
    #[serde(default)]
    worker_id: Option<String>,
}

impl Shaped for StartRequest {
    const SHAPE: Shape = NEW_ROLLOUT;
}

pub(super) async fn start(State(store): State<Store>, body: Body) -> Started {
    let StartRequest { rollout, worker_id } = body.parse()?;
    started(&store, store.rollouts().start(rollout, worker_id.as_deref()).await?).await
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
    include_sessions: Option<bool>,
    #[serde(flatten)]
    paging: Paging,
}

impl Shaped for RolloutSearch {
    const SHAPE: Shape = paged![
        Field::nullable("status_in", Shape::List(&Shape::Word(RolloutStatus::WORDS))),
        Field::nullable("rollout_id_in", Shape::List(&Shape::Text)),
        Field::nullable("rollout_id_contains", Shape::Text),
        Field::nullable("filter_logic", Shape::Word(FilterLogic::WORDS)),
        Field::nullable("run_id", Shape::Text),
        Field::nullable("step", Shape::Integer(i64::MIN)),
        Field::nullable("mode", Shape::Word(RolloutMode::WORDS)),
        Field::nullable("include_sessions", Shape::Flag),
    ];
}

pub(super) async fn list(State(store): State<Store>, pairs: Pairs) -> Result<Response, RestError> {
    query(&store, parameters(pairs)?).await
}

pub(super) async fn search(State(store): State<Store>, body: Body) -> Result<Response, RestError> {
    query(&store, body.or_empty().parse()?).await
}

async fn query(store: &Store, search: RolloutSearch) -> Result<Response, RestError> {
    // Who names rollouts by their ids wants those, whatever they were made for.
    let without_sessions = !search.include_sessions.unwrap_or(search.rollout_id_in.is_some());
    let filter = RolloutFilter {
        status_in: search.status_in,
        rollout_id_in: search.rollout_id_in,
        rollout_id_contains: search.rollout_id_contains,
        filter_logic: search.filter_logic,
        run_id: search.run_id,
        step: search.step,
        mode: search.mode,
        without_sessions,
        page: search.paging.page()?,
    };
    if !lists::is_short(&filter.page) {
        return in_parts(store, &filter).await;
    }
    let Paginated { items, limit, offset, total } = store.rollouts().query(&filter).await?;
    let items: Vec<RolloutReply> = items.into_iter().map(RolloutReply::from).collect();
    Ok(Json(Paginated { items, limit, offset, total }).into_response())
}

/// The same text, written as the rollouts are read.
async fn in_parts(store: &Store, filter: &RolloutFilter) -> Result<Response, RestError> {
    let pages = store.rollouts().pages(filter).await?;
    let total = pages.total;
    let parts = try_unfold(pages, |mut pages| async move {
        let Some(rollouts) = pages.next().await? else { return Ok::<_, StoreError>(None) };
        Ok(Some((rollouts.into_iter().map(RolloutReply::from).collect::<Vec<_>>(), pages)))
    });
    lists::list_of(parts, total, &filter.page)
}

pub(super) async fn find(State(store): State<Store>, Path(rollout_id): Path<String>) -> Reply<Option<RolloutReply>> {
    let rollout_id = store.rollouts().id_of(&rollout_id).await?;
    Ok(Json(store.rollouts().get(&rollout_id).await?.map(RolloutReply::from)))
}

const ROLLOUT_UPDATE: Shape = Shape::Record(&[
    Field::nullable("input", Shape::Any),
    Field::nullable("mode", Shape::Word(RolloutMode::WORDS)),
    Field::nullable("resources_id", Shape::Text),
    Field::nullable("status", Shape::Word(RolloutStatus::WORDS)),
    Field::nullable("config", CONFIG),
    Field::nullable("metadata", Shape::Map(&Shape::Any)),
]);

pub(super) async fn update(State(store): State<Store>, Path(rollout_id): Path<String>, body: Body) -> Reply<Rollout> {
    let mut object = body.object(&ROLLOUT_UPDATE)?;
    let update = RolloutUpdate {
        input: object.remove("input"),
        mode: field(&mut object, "mode")?,
        resources_id: field(&mut object, "resources_id")?,
        status: value_field(&mut object, "status")?,
        config: value_field(&mut object, "config")?,
        metadata: field(&mut object, "metadata")?,
    };
    Ok(Json(store.rollouts().update(&rollout_id, update).await?))
}

pub(super) async fn start_attempt(State(store): State<Store>, Path(rollout_id): Path<String>, body: Body) -> Started {
    let worker: WorkerField = body.or_empty().parse()?;
    started(&store, store.rollouts().start_attempt(&rollout_id, worker.worker_id.as_deref()).await?).await
}

pub(super) async fn list_attempts(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    pairs: Pairs,
) -> Result<Response, RestError> {
    attempts(&store, &store.rollouts().id_of(&rollout_id).await?, parameters(pairs)?).await
}

pub(super) async fn search_attempts(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    body: Body,
) -> Result<Response, RestError> {
    attempts(&store, &store.rollouts().id_of(&rollout_id).await?, body.or_empty().parse()?).await
}

async fn attempts(store: &Store, rollout_id: &str, paging: Paging) -> Result<Response, RestError> {
    let page = paging.page()?;
    match lists::is_short(&page) {
        true => lists::whole(store.attempts().query(rollout_id, &page).await),
        false => lists::in_parts(store.attempts().pages(rollout_id, &page).await?, &page),
    }
}

pub(super) async fn latest_attempt(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
) -> Reply<Option<Attempt>> {
    Ok(Json(store.attempts().get(&store.rollouts().id_of(&rollout_id).await?, "latest").await?))
}

pub(super) async fn update_latest_attempt(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    body: Body,
) -> Reply<Attempt> {
    Ok(Json(store.attempts().update(&rollout_id, "latest", attempt_update(body)?).await?))
}

pub(super) async fn update_attempt(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
    body: Body,
) -> Reply<Attempt> {
    Ok(Json(store.attempts().update(&rollout_id, attempt_id, attempt_update(body)?).await?))
}

#[derive(Deserialize)]
struct WaitRequest {
    rollout_ids: Vec<String>,
    #[serde(default)]
    timeout: Option<f64>,
}

impl Shaped for WaitRequest {
    const SHAPE: Shape = Shape::Record(&[
        Field::required("rollout_ids", Shape::List(&Shape::Text)),
        Field::nullable("timeout", Shape::Number),
    ]);
}

pub(super) async fn wait(State(store): State<Store>, body: Body) -> Reply<Vec<Rollout>> {
    let request: WaitRequest = body.parse()?;
    let timeout = request.timeout.map(|timeout| seconds("timeout", timeout)).transpose()?;
    Ok(Json(store.rollouts().wait_for(&request.rollout_ids, timeout).await?))
}
