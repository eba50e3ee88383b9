//! The routes that the page reads.

use axum::Router;
use fulgurite_api::{RouteNeeds, Serving};
use fulgurite_dashboard::Tokenizers;
use fulgurite_store::Store;

use crate::run_routes;

/// The page and the routes that it reads, without keys: whoever serves them lets nothing but reads through.
pub fn reading_routes(store: &Store, tokenizers: Tokenizers) -> Router {
    let (serving, mut needs) = (Serving::default(), RouteNeeds::default());
    fulgurite_dashboard::routes(store.clone(), tokenizers, Vec::new(), &serving, &mut needs)
        .merge(fulgurite_api::routes(store.clone(), &serving, &mut needs))
        .merge(run_routes(store))
}
