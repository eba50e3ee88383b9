//! The web page at a server's own port: what runs learn, token by token. Its files are built from `web/`, and are in the
//! program; what they show they read from the store, by routes below `/ui/data/` that change nothing.
//!
//! - `page`: the files, and what a browser is told of them.
//! - `report`: the page in one file, with its data.
//! - `runs`, `lists`: runs and rollouts, as rows.
//! - `live`: what is new, as server-sent events.
//! - `rollout`: one rollout as a person reads it.
//! - `tokens`: the tokens of an attempt, in columns of bytes.
//! - `trained`: what updates made of those tokens.
//! - `renderings`: a recorded conversation as other renderers write it.
//! - `models`: the models that are sampled, and what their weights make of recorded tokens.

mod lists;
mod live;
mod models;
mod page;
mod renderings;
mod report;
mod rollout;
mod runs;
mod tokens;
mod trained;

use std::collections::HashMap;
use std::sync::Arc;

use axum::routing::get;
use axum::{Extension, Router};
use fulgurite_api::{Need, RouteNeeds, Serving};
use fulgurite_renderers::Renderer;
use fulgurite_store::Store;

pub use models::PageModel;
pub use report::{Report, report_page};

/// Renderers by the fingerprints of their tokenizers, for the texts of tokens.
pub type Tokenizers = HashMap<String, Arc<dyn Renderer>>;

/// The page and its data. Nobody needs a key for the page itself, which holds nothing but its own text.
pub fn routes(
    store: Store,
    tokenizers: Tokenizers,
    models: Vec<PageModel>,
    serving: &Serving,
    needs: &mut RouteNeeds,
) -> Router {
    let files = Router::new()
        .route(needs.note("/", Need::Nothing), get(page::index))
        .route(needs.note("/ui/{file}", Need::Nothing), get(page::file));
    let data = Router::new()
        .route("/ui/data/events", get(live::events))
        .route("/ui/data/models", get(models::list))
        .route("/ui/data/runs", get(runs::runs))
        .route("/ui/data/rollouts", get(lists::rollouts))
        .route("/ui/data/rollouts/{rollout_id}", get(rollout::read))
        .route("/ui/data/rollouts/{rollout_id}/renderers", get(renderings::list))
        .route("/ui/data/rollouts/{rollout_id}/rendering", get(renderings::read))
        .route("/ui/data/rollouts/{rollout_id}/same-task", get(lists::same_task))
        .route("/ui/data/rollouts/{rollout_id}/scores", get(models::scores))
        .route("/ui/data/rollouts/{rollout_id}/tokens", get(tokens::read))
        .layer(Extension(Arc::new(tokenizers)))
        .layer(Extension(models::Models::new(models)))
        .layer(Extension(renderings::Renderings::new()))
        .layer(Extension(live::Watched::new(store.clone())));
    serving.serve(data, store).merge(files)
}
