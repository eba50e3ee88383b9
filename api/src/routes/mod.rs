//! Our own routes: OpenTelemetry's traces and events at `/v1/traces`, `/v1/logs` and over gRPC, rewards under `/rollout`, and what our own runners and
//! trainers need under `/v1/fulgurite`.

mod attempts;
mod generations;
mod grpc;
mod keys;
mod records;
mod rewards;
mod run_leases;
mod runs;
mod store_url;
mod traces;
mod weights;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use fulgurite_store::Store;

use crate::access::need::Need;
use crate::access::route_needs::RouteNeeds;
use crate::conventions::error::RestError;
use crate::conventions::refused::Refused;
use crate::conventions::serving::Serving;
use crate::otlp::Signal;

pub use grpc::{is_grpc, unknown_method};

/// Our own routes over the store. What each needs of a key is noted in `needs`.
pub fn routes(store: Store, serving: &Serving, needs: &mut RouteNeeds) -> Router {
    let body_limit = serving.body_limit;
    let own = workers_routes(needs)
        .route("/rollouts/{rollout_id}/attempts/{attempt_id}/rewards", get(rewards::list))
        .route("/generations", get(generations::list))
        .route("/rollouts/records", post(records::read))
        .route("/rewarded-attempts", get(rewards::list_attempts))
        .route("/store", get(store_url::find))
        .route("/keys/model-calls", post(keys::issue))
        .route("/keys/worker", post(keys::issue_to_worker))
        .route("/keys/reader", post(keys::issue_to_reader))
        .route("/weights", get(weights::list).post(weights::name))
        .route("/publications", get(weights::publications))
        .route("/servers", get(weights::servers))
        .nest("/runs", run_routes());
    let other_signals = grpc::OTHER_SIGNALS.into_iter();
    let routes = other_signals
        .fold(Router::new(), |router, path| router.route(path, post(grpc::unsupported)))
        .nest("/v1/fulgurite", own)
        .route(
            grpc::TRACES,
            post(move |State(store), request| grpc::export(Signal::Traces, store, request, body_limit)),
        )
        .route(grpc::LOGS, post(move |State(store), request| grpc::export(Signal::Logs, store, request, body_limit)))
        .route(
            "/v1/traces",
            post(move |State(store), request| traces::export(Signal::Traces, store, request, body_limit)),
        )
        .route("/v1/logs", post(move |State(store), request| traces::export(Signal::Logs, store, request, body_limit)))
        .route("/v1/metrics", post(unsupported))
        .route("/v1/development/profiles", post(unsupported))
        .route("/rollout/{rollout_id}/drift", get(attempts::drift))
        .route(needs.note("/rollout/{rollout_id}/reward", Need::Rollout), post(rewards::add))
        .route(
            needs.note("/rollout/{rollout_id}/attempt/{attempt_id}/reward", Need::Rollout),
            get(rewards::list).post(rewards::add_to_attempt),
        )
        .route(
            needs.note("/rollout/{rollout_id}/generation/{generation_id}/reward", Need::Rollout),
            post(rewards::add_to_generation),
        );
    serving.serve(routes, store)
}

/// What a runner asks, whose key may be a worker's.
fn workers_routes(needs: &mut RouteNeeds) -> Router<Store> {
    let routes = [
        ("/worker", get(keys::worker)),
        ("/workers/{worker_id}/release", post(attempts::release)),
        ("/attempts/heartbeat", post(attempts::heartbeat)),
        ("/rollouts/{rollout_id}/attempts/{attempt_id}/report", post(attempts::report_attempt)),
    ];
    routes.into_iter().fold(Router::new(), |router, (path, methods)| {
        needs.note(&format!("/v1/fulgurite{path}"), Need::Worker);
        router.route(path, methods)
    })
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
        .route("/{run_id}/trained-elsewhere", post(runs::trained_elsewhere))
        .route("/{run_id}/other-callers", get(runs::other_callers))
        .route("/{run_id}/rewind", post(runs::rewind))
        .route("/{run_id}/allowed-steps", post(runs::allow_steps))
        .route("/{run_id}/lease", post(run_leases::claim))
}

/// OpenTelemetry's other signals.
async fn unsupported() -> StatusCode {
    StatusCode::NOT_IMPLEMENTED
}

/// The answer to a request that is not let in, in the shape of its route's other errors: calls of gRPC and OpenTelemetry's
/// routes have one of their own, all others over the store tell it as [`RestError`] does.
pub fn refusal(request: &Parts, refused: Refused) -> Response {
    if is_grpc(request.version, &request.headers) {
        return grpc::refusal(&refused);
    }
    match request.uri.path() {
        "/v1/traces" | "/v1/metrics" | "/v1/logs" | "/v1/development/profiles" => {
            traces::refusal(&request.headers, &refused)
        }
        _ => RestError::Refused(refused).into_response(),
    }
}
