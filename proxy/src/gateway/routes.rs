use axum::Router;
use axum::routing::{get, post};
use fulgurite_api::{Need, RouteNeeds};

use super::{calls, error, model_list, pause};
use crate::proxy::Proxy;

/// The gateway's routes, but for rollouts and their events, which are the store's.
pub(crate) fn routes(needs: &mut RouteNeeds) -> Router<Proxy> {
    let call = "/proxy/rollout/{rollout_id}/attempt/{attempt_id}/mode/{mode}/openai/v1/{*endpoint}";
    Router::new()
        .route(needs.note(call, Need::ModelCalls), post(calls::call))
        .route("/proxy/pause", post(pause::pause))
        .route("/proxy/resume", post(pause::resume))
        .route("/proxy/state", get(pause::state))
        .route("/api/models", get(model_list::list).post(model_list::register).delete(model_list::clear))
        .method_not_allowed_fallback(error::method_not_allowed)
}
