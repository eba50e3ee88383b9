//! How routes over the store are served.

use std::fmt;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::middleware::from_fn;
use axum::{Extension, Json, Router};
use fulgurite_store::Store;
use serde_json::Value;

use super::error::RestError;
use super::replaced::note_replaced;
use super::turns::{Endless, Turns};

/// Bytes that a request body may have, unless told otherwise.
pub const DEFAULT_BODY_LIMIT: usize = 64 << 20;

/// What a handler answers with 200.
pub type Reply<T = Value> = Result<Json<T>, RestError>;
/// What a handler answers with 201.
pub type Created<T> = Result<(StatusCode, Json<T>), RestError>;

/// How routes over the store are served.
#[derive(Clone)]
pub struct Serving {
    /// Bytes that a request body may have, also after it has been inflated.
    pub body_limit: usize,
    /// Where large bodies wait to be read.
    pub turns: Arc<dyn Turns>,
}

impl Default for Serving {
    fn default() -> Self {
        Self { body_limit: DEFAULT_BODY_LIMIT, turns: Arc::new(Endless) }
    }
}

impl fmt::Debug for Serving {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Serving").field("body_limit", &self.body_limit).finish_non_exhaustive()
    }
}

impl Serving {
    /// Routes that answer from the store, each with its errors in our words.
    pub fn serve(&self, routes: Router<Store>, store: Store) -> Router {
        routes
            .method_not_allowed_fallback(method_not_allowed)
            .layer(DefaultBodyLimit::max(self.body_limit))
            .layer(Extension(Arc::clone(&self.turns)))
            .layer(from_fn(note_replaced))
            .with_state(store)
    }
}

async fn method_not_allowed() -> RestError {
    RestError::MethodNotAllowed
}
