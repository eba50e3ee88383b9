//! Agent-lightning's store API (0.3) under `/v1/agl`.
//!
//! Beyond the original: `rollout_id` may be supplied when a rollout is enqueued, `wait_seconds` makes a dequeue wait,
//! `lease_seconds` takes back what it hands out unless a sign of life comes, lists of rollouts may be narrowed by
//! `run_id`, `step` and `mode`, sessions (calls that do not say whose they are) are listed among rollouts only with
//! `include_sessions`, and what does not exist is 404 instead of 500.

mod resources;
mod rollouts;
mod spans;
mod workers;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any, get, post};
use axum::{Json, Router};
use fulgurite_api::conventions::error::RestError;
use fulgurite_api::conventions::serving::Reply;
use fulgurite_store::Store;
use serde_json::{Value, json};

/// When attempts that are overdue are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// By a timer of the server's.
    ByTimer,
    /// Before each call that Agent-lightning's own store looks for them at, so that no timer is needed.
    BeforeCalls,
}

/// The routes below `/v1/agl`.
pub(crate) fn routes(store: &Store, overdue: Overdue) -> Router<Store> {
    let scanning = match overdue {
        Overdue::ByTimer => scanning_routes(),
        Overdue::BeforeCalls => scanning_routes().route_layer(from_fn_with_state(store.clone(), scan_first)),
    };
    scanning.merge(other_routes())
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
    store.attempts().scan_watchdog().await?;
    Ok(next.run(request).await)
}

async fn health() -> Json<Value> {
    Json(json!({"status": "ok"}))
}

async fn statistics(State(store): State<Store>) -> Reply {
    let statistics = store.queries().statistics().await?;
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

async fn not_found() -> RestError {
    RestError::NotFound("Not Found".to_owned())
}
