//! What is said of runs over HTTP, which every server of this program says.

use axum::Router;
use fulgurite_store::Store;

/// The routes that read a run and say something about it, for who has the admin key.
pub fn run_routes(store: &Store) -> Router {
    crate::doctor::routes::routes(store.clone()).merge(crate::report::routes::routes(store.clone()))
}
