//! Agent-lightning's store API (0.3) under `/v1/agl`, the rollouts of its gateway (1.0) under `/api`, OpenTelemetry's
//! traces at `/v1/traces`, rewards under `/rollout`, and what our own runners and trainers need.
//!
//! Beyond the original: `rollout_id` may be supplied when a rollout is enqueued, `wait_seconds` makes a dequeue wait,
//! `lease_seconds` takes back what it hands out unless a sign of life comes, lists of rollouts may be narrowed by
//! `run_id`, `step` and `mode`, and what does not exist is 404 instead of 500.

mod error;
mod gateway;
mod generations;
mod input;
mod keys;
mod lists;
mod records;
mod resources;
mod rewards;
mod rollouts;
mod runs;
mod shape;
mod spans;
mod traces;
mod turns;
mod workers;

use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Json, Router};
use serde_json::{Value, json};

use self::error::RestError;
use self::turns::Endless;
pub(crate) use self::turns::aside;
pub use self::turns::{Turns, TurnsFull};
use crate::{Refused, Store};

/// Bytes that a request body may have, unless told otherwise.
pub const DEFAULT_BODY_LIMIT: usize = 64 << 20;

/// How the store is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteOptions {
    /// Bytes that a request body may have, also after it has been inflated.
    pub body_limit: usize,
    /// Whether overdue attempts are ended before each call that Agent-lightning's own store looks for them at, so that
    /// no timer is needed.
    pub scan_before_calls: bool,
}

impl Default for RouteOptions {
    fn default() -> Self {
        Self { body_limit: DEFAULT_BODY_LIMIT, scan_before_calls: false }
    }
}

type Reply<T = Value> = std::result::Result<Json<T>, RestError>;
type Created<T> = std::result::Result<(StatusCode, Json<T>), RestError>;

/// All routes of the store, served as by default.
pub fn routes(store: Store) -> Router {
    routes_with(store, RouteOptions::default())
}

/// All routes of the store.
pub fn routes_with(store: Store, options: RouteOptions) -> Router {
    routes_in_turns(store, options, Arc::new(Endless))
}

/// All routes of the store, whose large bodies are read in turns.
pub fn routes_in_turns(store: Store, options: RouteOptions, turns: Arc<dyn Turns>) -> Router {
    let RouteOptions { body_limit, scan_before_calls } = options;
    let mut scanning = scanning_routes();
    if scan_before_calls {
        scanning = scanning.route_layer(from_fn_with_state(store.clone(), scan_first));
    }
    let own = Router::new()
        .route("/workers/{worker_id}/release", post(workers::release))
        .route("/rollouts/{rollout_id}/attempts/{attempt_id}/report", post(rollouts::report_attempt))
        .route("/rollouts/{rollout_id}/attempts/{attempt_id}/rewards", get(rewards::list))
        .route("/attempts/heartbeat", post(rollouts::heartbeat))
        .route("/generations", get(generations::list))
        .route("/rollouts/records", post(records::read))
        .route("/rewarded-attempts", get(rewards::list_attempts))
        .route("/keys/model-calls", post(keys::issue))
        .nest("/runs", run_routes());
    let gateway = Router::new()
        .route("/rollouts", get(gateway::list).post(gateway::create))
        .route("/rollouts/terminal", get(gateway::list_terminal))
        .route("/rollouts/{rollout_id}", get(gateway::find).patch(gateway::update).delete(gateway::delete))
        .route("/rollouts/{rollout_id}/events", get(gateway::list_events))
        .route("/rollouts/{rollout_id}/attempt/{attempt_id}/events", post(gateway::add_event));
    Router::new()
        .nest("/api", gateway)
        .nest("/v1/agl", scanning.merge(other_routes()))
        .nest("/v1/fulgurite", own)
        .route("/v1/traces", post(move |State(store), request| traces::export(store, request, body_limit)))
        .route("/v1/metrics", post(not_taken))
        .route("/v1/logs", post(not_taken))
        .route("/v1/development/profiles", post(not_taken))
        .route("/rollout/{rollout_id}/drift", get(rollouts::drift))
        .route("/rollout/{rollout_id}/reward", post(rewards::add))
        .route("/rollout/{rollout_id}/attempt/{attempt_id}/reward", post(rewards::add_to_attempt))
        .route("/rollout/{rollout_id}/generation/{generation_id}/reward", post(rewards::add_to_generation))
        .method_not_allowed_fallback(method_not_allowed)
        .layer(DefaultBodyLimit::max(body_limit))
        .layer(Extension(turns))
        .with_state(store)
}

/// The answer to a request that is not let in, in the shape of its route's other errors.
pub fn refusal(path: &str, headers: &HeaderMap, refused: Refused) -> Response {
    match path {
        "/v1/traces" | "/v1/metrics" | "/v1/logs" | "/v1/development/profiles" => traces::refusal(headers, &refused),
        _ => RestError::Refused(refused).into_response(),
    }
}

/// The routes of Agent-lightning's API at whose calls its own store looks for overdue attempts.
fn scanning_routes() -> Router<Store> {
    Router::new()
        .route("/queues/rollouts/enqueue", post(rollouts::enqueue))
        .route("/queues/rollouts/dequeue", post(rollouts::dequeue))
        .route("/rollouts", get(rollouts::list).post(rollouts::start))
        .route("/rollouts/search", post(rollouts::search))
        .route("/rollouts/{rollout_id}", get(rollouts::find).post(rollouts::update))
        .route("/rollouts/{rollout_id}/attempts", get(rollouts::list_attempts).post(rollouts::start_attempt))
        .route("/rollouts/{rollout_id}/attempts/search", post(rollouts::search_attempts))
        .route(
            "/rollouts/{rollout_id}/attempts/latest",
            get(rollouts::latest_attempt).post(rollouts::update_latest_attempt),
        )
        .route("/rollouts/{rollout_id}/attempts/{attempt_id}", post(rollouts::update_attempt))
        .route("/waits/rollouts", post(rollouts::wait))
        .route("/workers", get(workers::list))
        .route("/workers/search", post(workers::search))
        .route("/resources/{resources_id}", post(resources::update))
        .route("/spans", get(spans::list))
        .route("/spans/search", post(spans::search))
}

/// Training runs, for a trainer that is another process.
fn run_routes() -> Router<Store> {
    Router::new()
        .route("/", get(runs::list).post(runs::create))
        .route("/{run_id}", get(runs::find))
        .route("/{run_id}/steps", get(runs::steps).post(runs::record_step))
        .route("/{run_id}/checkpoints", get(runs::checkpoints))
        .route("/{run_id}/ledger", get(runs::ledger))
        .route("/{run_id}/unaccounted", get(runs::unaccounted))
        .route("/{run_id}/uses", post(runs::record_uses))
        .route("/{run_id}/rewind", post(runs::rewind))
}

/// The other routes of Agent-lightning's API.
fn other_routes() -> Router<Store> {
    Router::new()
        .route("/health", get(health))
        .route("/statistics", get(statistics))
        .route("/workers/{worker_id}", get(workers::find).post(workers::update))
        .route("/resources", get(resources::list).post(resources::add))
        .route("/resources/latest", get(resources::latest))
        .route("/resources/{resources_id}", get(resources::find))
        .route("/spans", post(spans::add))
        .route("/spans/next", post(spans::next_sequence_id))
        .route("/{*path}", any(not_found))
}

/// Ends overdue attempts before the request is answered.
async fn scan_first(State(store): State<Store>, request: Request, next: Next) -> Result<Response, RestError> {
    store.scan_watchdog().await?;
    Ok(next.run(request).await)
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn statistics(State(store): State<Store>) -> Reply {
    let statistics = store.statistics().await?;
    Ok(Json(json!({
        "name": "Fulgurite",
        "total_rollouts": statistics.rollouts,
        "total_attempts": statistics.attempts,
        "total_spans": statistics.spans,
        "total_resources": statistics.resources,
        "total_workers": statistics.workers,
        "uptime": statistics.uptime_seconds,
    })))
}

/// OpenTelemetry's other signals.
async fn not_taken() -> StatusCode {
    StatusCode::NOT_IMPLEMENTED
}

async fn not_found() -> RestError {
    RestError::NotFound("Not Found".to_owned())
}

async fn method_not_allowed() -> RestError {
    RestError::MethodNotAllowed
}

#[cfg(test)]
mod tests;
