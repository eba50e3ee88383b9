//! What Agent-lightning's programs speak with the store: its store API (0.3) under `/v1/agl`, and the rollouts and events
//! of its gateway (1.0) under `/api`.

#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod store_api;

pub use store_api::Overdue;

use axum::Router;
use fulgurite_api::Serving;
use fulgurite_store::Store;

/// Agent-lightning's routes over the store.
pub fn routes(store: Store, serving: &Serving, overdue: Overdue) -> Router {
    let routes = Router::new().nest("/api", gateway::routes()).nest("/v1/agl", store_api::routes(&store, overdue));
    serving.serve(routes, store)
}
