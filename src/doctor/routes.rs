//! The findings of a run over HTTP.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use fulgurite_store::Store;
use serde_json::json;

use super::facts::facts;
use super::findings::findings;

/// `GET /v1/fulgurite/runs/{run_id}/findings`, for who has the admin key.
pub fn routes(store: Store) -> Router {
    Router::new().route("/v1/fulgurite/runs/{run_id}/findings", get(of_run)).with_state(store)
}

async fn of_run(State(store): State<Store>, Path(run_id): Path<String>) -> Response {
    let refused = |status: StatusCode, detail: String| (status, Json(json!({ "detail": detail }))).into_response();
    let failed = |error: anyhow::Error| {
        // What a database says is for the log, not for whoever sends requests.
        tracing::error!(%error, "the findings of a run cannot be made");
        refused(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error".to_owned())
    };
    let run = match store.run(&run_id).await {
        Ok(Some(run)) => run,
        Ok(None) => return refused(StatusCode::NOT_FOUND, format!("run not found: {run_id}")),
        Err(error) => return failed(error.into()),
    };
    match facts(&store, &run).await {
        Ok(facts) => Json(json!(findings(&facts))).into_response(),
        Err(error) => failed(error),
    }
}
