//! Our own routes over a store.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod rewards;
#[path = "../served/mod.rs"]
mod served;
#[path = "../../../store/tests/test_store/mod.rs"]
mod test_store;
mod traces;
mod traces_over_grpc;
mod training;

use axum::Router;
use fulgurite_api::{RouteNeeds, Serving};
use fulgurite_store::Store;

/// Our own routes, served as by default.
fn routes(store: Store) -> Router {
    fulgurite_api::routes(store, &Serving::default(), &mut RouteNeeds::default())
}
