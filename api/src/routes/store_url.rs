//! Where the store is, for commands that read it themselves.

use axum::Json;
use axum::extract::State;
use fulgurite_store::Store;
use serde::Serialize;

use crate::conventions::serving::Reply;

#[derive(Serialize)]
pub(super) struct StoreReply {
    url: String,
}

/// `GET /v1/fulgurite/store`: its URL, without a password.
pub(super) async fn find(State(store): State<Store>) -> Reply<StoreReply> {
    Ok(Json(StoreReply { url: store.url() }))
}
