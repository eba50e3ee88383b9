//! The web page at a server's own port: what runs learn, token by token. Its files are built from `web/`, and are in the
//! program; what they show they read from the store, by routes below `/ui/data/` that change nothing.
//!
//! - `page`: the files, and what a browser is told of them.
//! - `lists`: runs and rollouts, as rows.
//! - `rollout`: one rollout as a person reads it.
//! - `tokens`: the tokens of an attempt, in columns of bytes.

mod lists;
mod page;
mod rollout;
mod tokens;

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use fulgurite_api::{Need, RouteNeeds, Serving};
use fulgurite_renderers::Renderer;
use fulgurite_store::Store;

/// Renderers by the fingerprints of their tokenizers, for the texts of tokens.
pub type Tokenizers = Arc<HashMap<String, Arc<dyn Renderer>>>;

/// The page and its data. Nobody needs a key for the page itself, which holds nothing but its own text.
pub fn routes(store: Store, tokenizers: Tokenizers, serving: &Serving, needs: &mut RouteNeeds) -> Router {
    let files = Router::new()
        .route(needs.note("/", Need::Nothing), get(page::index))
        .route(needs.note("/ui/{file}", Need::Nothing), get(page::file));
    let data = Router::new()
        .route("/ui/data/runs", get(lists::runs))
        .route("/ui/data/rollouts", get(lists::rollouts))
        .route("/ui/data/rollouts/{rollout_id}", get(rollout::read))
        .route("/ui/data/rollouts/{rollout_id}/tokens", get(tokens::read))
        .layer(axum::Extension(tokenizers));
    serving.serve(data, store).merge(files)
}
