//! Answers of routes that read a run and say something about it.

use anyhow::Result;
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fulgurite_store::Store;
use fulgurite_types::Run;
use serde::Serialize;
use serde_json::json;

/// What `say` has to say about a run, as JSON; an error in our own words for a run that is not there, or cannot be read.
pub async fn answer_of_run<T: Serialize>(
    store: &Store,
    run_id: &str,
    say: impl AsyncFnOnce(Run) -> Result<T>,
) -> Response {
    let refused = |status: StatusCode, detail: String| (status, Json(json!({ "detail": detail }))).into_response();
    let failed = |error: anyhow::Error| {
        // What a database says is for the log, not for whoever sends requests.
        tracing::error!(%error, run_id, "nothing can be said about a run");
        refused(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error".to_owned())
    };
    let run = match store.runs().get(run_id).await {
        Ok(Some(run)) => run,
        Ok(None) => return refused(StatusCode::NOT_FOUND, format!("run not found: {run_id}")),
        Err(error) => return failed(error.into()),
    };
    match say(run).await {
        Ok(answer) => Json(json!(answer)).into_response(),
        Err(error) => failed(error),
    }
}
