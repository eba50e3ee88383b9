//! Rollouts and events of Agent-lightning's 1.0 API, under `/api`.
//!
//! Beyond the original: a rollout may be given its present state again, and the events of an attempt whose agent was
//! run through the other API are listed as well.

mod events;
mod model_request;
mod triplet;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::input::{Body, Path, SentBy, parameters};
use fulgurite_api::conventions::serving::{Created, Reply};
use fulgurite_api::conventions::shape::{Field, Shape, Shaped};
use fulgurite_store::{Store, StoreError};
use fulgurite_types::{
    Completions, Event, GatewayRollout, GatewayState, GatewayUpdate, NewGatewayRollout, Object, Rollout, RolloutMode,
    exact_json,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

type Pairs = Query<Vec<(String, String)>>;

/// The routes below `/api`.
pub(crate) fn routes() -> Router<Store> {
    Router::new()
        .route("/rollouts", get(list).post(create))
        .route("/rollouts/terminal", get(list_terminal))
        .route("/rollouts/{rollout_id}", get(find).patch(update).delete(delete))
        .route("/rollouts/{rollout_id}/events", get(list_events))
        .route("/rollouts/{rollout_id}/attempt/{attempt_id}/events", post(add_event))
}

/// Seconds that an attempt may take, unless its creator sets another limit.
const DEFAULT_TIMEOUT: i64 = 3600;

#[derive(Serialize)]
struct RolloutReply {
    rollout_id: String,
    input: Value,
    is_train: bool,
    config: ConfigReply,
    metadata: Object,
    status: StatusReply,
}

#[derive(Serialize)]
struct ConfigReply {
    timeout_seconds: i64,
    local: Option<Value>,
    k8s: Option<Value>,
}

#[derive(Serialize)]
struct StatusReply {
    state: GatewayState,
    k8s_job_name: Option<String>,
    last_attempt_id: Option<String>,
    error_message: Option<String>,
    version: u32,
    created_at: f64,
    updated_at: f64,
}

impl From<GatewayRollout> for RolloutReply {
    fn from(found: GatewayRollout) -> Self {
        let rollout = found.rollout;
        // These two are always there, and first.
        let mut metadata = Object::new();
        metadata.insert("batch_idx".into(), Value::Null);
        metadata.insert("sample_idx_in_batch".into(), Value::Null);
        metadata.extend(rollout.metadata.unwrap_or_default());
        Self {
            rollout_id: rollout.rollout_id,
            input: rollout.input,
            is_train: is_train(rollout.mode),
            config: ConfigReply {
                timeout_seconds: rollout
                    .config
                    .timeout_seconds
                    .map_or(DEFAULT_TIMEOUT, |seconds| seconds.ceil() as i64),
                local: found.local,
                k8s: found.k8s,
            },
            metadata,
            status: StatusReply {
                state: GatewayState::of(rollout.status),
                k8s_job_name: found.k8s_job_name,
                last_attempt_id: found.last_attempt_id,
                error_message: found.error_message,
                version: found.version,
                created_at: rollout.start_time,
                updated_at: found.updated_at,
            },
        }
    }
}

/// What is neither for validation nor for testing is for training.
fn is_train(mode: Option<RolloutMode>) -> bool {
    matches!(mode, Some(RolloutMode::Train) | None)
}

#[derive(Deserialize)]
struct NewRolloutRequest {
    #[serde(default)]
    rollout_id: Option<String>,
    input: Value,
    #[serde(default)]
    is_train: Option<bool>,
    #[serde(default)]
    config: ConfigRequest,
    #[serde(default)]
    metadata: Object,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConfigRequest {
    timeout_seconds: Option<i64>,
    local: Option<Object>,
    k8s: Option<Value>,
}

#[derive(Deserialize)]
#[serde(transparent)]
struct NewRollouts(Vec<NewRolloutRequest>);

impl Shaped for NewRollouts {
    const SHAPE: Shape = Shape::List(&Shape::Record(&[
        Field::nullable("rollout_id", Shape::Text),
        Field::required_or_null("input", Shape::Any),
        Field::optional("is_train", Shape::Flag),
        Field::optional(
            "config",
            Shape::Record(&[
                Field::optional("timeout_seconds", Shape::Integer(0)),
                Field::nullable(
                    "local",
                    Shape::Record(&[
                        Field::required("agent_class", Shape::Text),
                        Field::optional("env_map", Shape::Map(&Shape::Text)),
                    ]),
                ),
                Field::nullable("k8s", Shape::Record(&[Field::required_or_null("job_template", Shape::Any)])),
            ]),
        ),
        Field::optional("metadata", Shape::Map(&Shape::Any)),
    ]));
}

impl From<NewRolloutRequest> for NewGatewayRollout {
    fn from(request: NewRolloutRequest) -> Self {
        let local = request.config.local.map(|mut local| {
            local.entry("env_map").or_insert_with(|| json!({}));
            Value::Object(local)
        });
        Self {
            rollout_id: request.rollout_id,
            input: request.input,
            mode: if request.is_train.unwrap_or(true) { RolloutMode::Train } else { RolloutMode::Val },
            timeout_seconds: request.config.timeout_seconds.unwrap_or(DEFAULT_TIMEOUT) as f64,
            local,
            k8s: request.config.k8s,
            metadata: request.metadata,
        }
    }
}

async fn create(State(store): State<Store>, body: Body) -> Created<Vec<RolloutReply>> {
    let NewRollouts(requests) = body.parse()?;
    let rollouts = requests.into_iter().map(NewGatewayRollout::from).collect();
    let created = store.gateway_rollouts().create(rollouts).await?;
    Ok((StatusCode::CREATED, Json(created.into_iter().map(RolloutReply::from).collect())))
}

#[derive(Deserialize)]
struct ListParameters {
    state_in: Vec<GatewayState>,
    #[serde(default = "default_list_limit")]
    limit: u64,
}

fn default_list_limit() -> u64 {
    500
}

impl Shaped for ListParameters {
    const SHAPE: Shape = Shape::Record(&[
        Field::required("state_in", Shape::List(&Shape::Word(GatewayState::WORDS))),
        Field::optional("limit", Shape::Integer(0)),
    ]);
}

async fn list(State(store): State<Store>, pairs: Pairs) -> Reply<Vec<RolloutReply>> {
    let ListParameters { state_in, limit } = parameters(pairs)?;
    let found = store.gateway_rollouts().in_states(&state_in, limit).await?;
    Ok(Json(found.into_iter().map(RolloutReply::from).collect()))
}

#[derive(Deserialize)]
struct TerminalParameters {
    #[serde(default)]
    after: u64,
    #[serde(default = "default_terminal_limit")]
    limit: u64,
}

fn default_terminal_limit() -> u64 {
    1000
}

impl Shaped for TerminalParameters {
    const SHAPE: Shape =
        Shape::Record(&[Field::optional("after", Shape::Integer(0)), Field::optional("limit", Shape::Integer(0))]);
}

async fn list_terminal(State(store): State<Store>, pairs: Pairs) -> Reply {
    let TerminalParameters { after, limit } = parameters(pairs)?;
    let Completions { rollouts, next_after, total } = store.rollouts().completions(after, limit).await?;
    let items: Vec<Value> = rollouts.iter().map(terminal_item).collect();
    Ok(Json(json!({"items": items, "next_after": next_after, "total_terminal": total})))
}

fn terminal_item(rollout: &Rollout) -> Value {
    let stated = |key: &str| rollout.input.get(key).filter(|value| !value.is_null() && *value != "");
    json!({
        "rollout_id": rollout.rollout_id,
        "state": GatewayState::of(rollout.status),
        "data_id": stated("data_id").or_else(|| stated("instance_id")).unwrap_or(&json!("")),
        "is_train": is_train(rollout.mode),
    })
}

async fn find(State(store): State<Store>, Path(rollout_id): Path<String>) -> Reply {
    let rollout_id = store.rollouts().id_of(&rollout_id).await?;
    let found = store.gateway_rollouts().get(&rollout_id).await?.ok_or_else(|| not_found(&rollout_id))?;
    let attempts = store.attempts().of_rollout(&rollout_id).await?;
    let attempts: Vec<&str> = attempts.iter().map(|attempt| attempt.attempt_id.as_str()).collect();
    Ok(Json(json!({"rollout": RolloutReply::from(found), "attempts": attempts})))
}

fn not_found(rollout_id: &str) -> RestError {
    RestError::NotFound(format!("Rollout not found: {rollout_id}"))
}

/// A failure of the store in the gateway's words.
fn in_its_words(error: StoreError) -> RestError {
    match error {
        StoreError::NotFound { kind: "rollout", id } => not_found(&id),
        error => error.into(),
    }
}

#[derive(Deserialize)]
struct UpdateRequest {
    status: StatusRequest,
}

/// What is null is kept, as what is left out.
#[derive(Deserialize)]
struct StatusRequest {
    state: Option<GatewayState>,
    k8s_job_name: Option<String>,
    last_attempt_id: Option<String>,
    error_message: Option<String>,
}

impl Shaped for UpdateRequest {
    const SHAPE: Shape = Shape::Closed(&[Field::required(
        "status",
        Shape::Closed(&[
            Field::nullable("state", Shape::Word(GatewayState::WORDS)),
            Field::nullable("k8s_job_name", Shape::Text),
            Field::nullable("last_attempt_id", Shape::Text),
            Field::nullable("error_message", Shape::Text),
        ]),
    )]);
}

async fn update(State(store): State<Store>, Path(rollout_id): Path<String>, body: Body) -> Reply<RolloutReply> {
    let UpdateRequest { status } = body.parse()?;
    let change = GatewayUpdate {
        state: status.state,
        k8s_job_name: status.k8s_job_name,
        last_attempt_id: status.last_attempt_id,
        error_message: status.error_message,
    };
    let updated = store.gateway_rollouts().update(&rollout_id, change).await.map_err(in_its_words)?;
    Ok(Json(updated.into()))
}

async fn delete(State(store): State<Store>, Path(rollout_id): Path<String>) -> Result<StatusCode, RestError> {
    store.gateway_rollouts().delete(&rollout_id).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
struct EventRequest {
    event_type: String,
    data: Value,
}

impl Shaped for EventRequest {
    const SHAPE: Shape =
        Shape::Record(&[Field::required("event_type", Shape::Text), Field::required("data", Shape::Map(&Shape::Any))]);
}

async fn add_event(
    State(store): State<Store>,
    Path((rollout_id, attempt_id)): Path<(String, String)>,
    SentBy(sender): SentBy,
    body: Body,
) -> Reply<Event> {
    let EventRequest { event_type, data } = body.parse()?;
    let added = events::add(&store, &sender, &rollout_id, &attempt_id, &event_type, data).await;
    Ok(Json(added.map_err(in_its_words)?))
}

#[derive(Deserialize)]
struct EventParameters {
    event_type: Option<String>,
    format: Option<String>,
}

impl Shaped for EventParameters {
    const SHAPE: Shape = Shape::Record(&[
        Field::nullable("event_type", Shape::Text),
        Field::nullable("format", Shape::Word(&["triplet"])),
    ]);
}

async fn list_events(
    State(store): State<Store>,
    Path(rollout_id): Path<String>,
    pairs: Pairs,
) -> Result<Response, RestError> {
    let EventParameters { event_type, format } = parameters(pairs)?;
    let rollout_id = store.rollouts().id_of(&rollout_id).await?;
    let mut events = events::of_rollout(&store, &rollout_id).await.map_err(in_its_words)?;
    if let Some(event_type) = event_type {
        events.retain(|event| event.event_type == event_type);
    }
    let events = json!(if format.is_some() { triplet::triplets(events) } else { events });
    // Schemas of tools may hold numbers that no value does.
    Ok(([(CONTENT_TYPE, "application/json")], exact_json(&events)).into_response())
}
