//! Agent-lightning's gateway (1.0): model calls below `/proxy`, the list of models, and the pause.
//!
//! Models and the pause are of this process alone, as in Agent-lightning's own gateway: they are gone when it ends.

mod calls;
mod error;
mod pause;
mod registered_models;

use axum::Router;
use axum::routing::{get, post};

pub(crate) use pause::{Gateway, InFlight};
pub(crate) use registered_models::RemoteModels;

use crate::Proxy;

/// The gateway's routes, but for rollouts and their events, which are the store's.
pub(crate) fn routes() -> Router<Proxy> {
    Router::new()
        .route("/proxy/rollout/{rollout_id}/attempt/{attempt_id}/mode/{mode}/openai/v1/{*endpoint}", post(calls::call))
        .route("/proxy/pause", post(pause::pause))
        .route("/proxy/resume", post(pause::resume))
        .route("/proxy/state", get(pause::state))
        .route(
            "/api/models",
            get(registered_models::list).post(registered_models::register).delete(registered_models::clear),
        )
        .method_not_allowed_fallback(error::method_not_allowed)
}
