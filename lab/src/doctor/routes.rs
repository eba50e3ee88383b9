//! The findings of a run over HTTP.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use fulgurite_store::Store;

use super::facts::facts;
use super::findings::findings;
use crate::runs::run_answers::answer_of_run;

/// `GET /v1/fulgurite/runs/{run_id}/findings`, for who has the admin key.
pub(crate) fn routes(store: Store) -> Router {
    Router::new().route("/v1/fulgurite/runs/{run_id}/findings", get(of_run)).with_state(store)
}

async fn of_run(State(store): State<Store>, Path(run_id): Path<String>) -> Response {
    answer_of_run(&store, &run_id, async |run| Ok(findings(&facts(&store, &run).await?))).await
}
