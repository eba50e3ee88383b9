//! What changed in what a run's model says, over HTTP.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use fulgurite_store::Store;

use super::what_changed::changed_answers;
use crate::runs::run_answers::answer_of_run;

/// `GET /v1/fulgurite/runs/{run_id}/changed`, for who has the admin key: held-out tasks as they were answered at the first scoring, at the
/// middle one and at the last.
pub(crate) fn routes(store: Store) -> Router {
    Router::new().route("/v1/fulgurite/runs/{run_id}/changed", get(of_run)).with_state(store)
}

async fn of_run(State(store): State<Store>, Path(run_id): Path<String>) -> Response {
    answer_of_run(&store, &run_id, async |run| changed_answers(&store, &run).await).await
}
