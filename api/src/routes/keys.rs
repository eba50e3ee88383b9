use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use fulgurite_store::Store;
use serde::{Deserialize, Serialize};

use crate::conventions::input::Body;
use crate::conventions::serving::Created;
use crate::conventions::shape::{Field, Shape, Shaped};

#[derive(Deserialize)]
struct KeyRequest {
    seconds: u64,
}

impl Shaped for KeyRequest {
    const SHAPE: Shape = Shape::Closed(&[Field::required("seconds", Shape::Integer(1))]);
}

#[derive(Serialize)]
pub(super) struct KeyReply {
    key: String,
}

/// `POST /v1/fulgurite/keys/model-calls`: a key that opens model calls for so many seconds, and nothing else.
pub(super) async fn issue(State(store): State<Store>, body: Body) -> Created<KeyReply> {
    let KeyRequest { seconds } = body.parse()?;
    let key = store.issued_keys().await?.model_calls_key(seconds);
    Ok((StatusCode::CREATED, Json(KeyReply { key })))
}
