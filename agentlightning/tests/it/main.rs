//! Agent-lightning's routes, and with them our own, over one store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod adapters;
mod agent_lightning_replies;
mod gateway;
mod given_rewards;
mod large_bodies;
#[path = "../../../api/tests/served/mod.rs"]
mod served;
mod store_api;
#[path = "../../../store/tests/test_store/mod.rs"]
mod test_store;

use axum::Router;
use fulgurite_agentlightning::Overdue;
use fulgurite_api::{RouteNeeds, Serving};
use fulgurite_store::Store;

/// All routes over a store, served as by default.
fn routes(store: Store) -> Router {
    served_so(store, &Serving::default(), Overdue::ByTimer)
}

fn served_so(store: Store, serving: &Serving, overdue: Overdue) -> Router {
    fulgurite_api::routes(store.clone(), serving, &mut RouteNeeds::default())
        .merge(fulgurite_agentlightning::routes(store, serving, overdue))
}
