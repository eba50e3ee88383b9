use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use fulgurite_store::{LONGEST_ID, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::conventions::input::{Body, Holder};
use crate::conventions::serving::{Created, Reply};
use crate::conventions::shape::{Field, Shape, Shaped};

#[derive(Deserialize)]
struct KeyRequest {
    seconds: u64,
}

impl Shaped for KeyRequest {
    const SHAPE: Shape = Shape::Closed(&[Field::required("seconds", Shape::Integer(1))]);
}

#[derive(Deserialize)]
struct WorkerKeyRequest {
    name: String,
    seconds: u64,
}

impl Shaped for WorkerKeyRequest {
    const SHAPE: Shape =
        Shape::Closed(&[Field::required("name", Shape::Text), Field::required("seconds", Shape::Integer(1))]);
}

/// `POST /v1/fulgurite/keys/worker`: a key for runners of a name, for so many seconds: it takes rollouts off the queue and
/// speaks for the attempts that they took.
pub(super) async fn issue_to_worker(State(store): State<Store>, body: Body) -> Created<KeyReply> {
    let WorkerKeyRequest { name, seconds } = body.parse()?;
    if name.is_empty() {
        return Err(StoreError::invalid("name", "must not be empty").into());
    }
    if name.len() > LONGEST_ID {
        let message = format!("has {} bytes, and may have {LONGEST_ID}", name.len());
        return Err(StoreError::invalid("name", message).into());
    }
    let key = store.issued_keys().await?.worker_key(&name, seconds);
    Ok((StatusCode::CREATED, Json(KeyReply { key })))
}

#[derive(Serialize)]
pub(super) struct WorkerReply {
    name: Option<String>,
}

/// `GET /v1/fulgurite/worker`: the name of the workers whose key this is, if it is a worker's.
pub(super) async fn worker(holder: Holder) -> Reply<WorkerReply> {
    Ok(Json(WorkerReply { name: holder.worker().map(str::to_owned) }))
}

#[derive(Serialize)]
pub(super) struct KeyReply {
    key: String,
}

/// `POST /v1/fulgurite/keys/reader`: a key that reads everything and changes nothing, for so many seconds.
pub(super) async fn issue_to_reader(State(store): State<Store>, body: Body) -> Created<KeyReply> {
    let KeyRequest { seconds } = body.parse()?;
    let key = store.issued_keys().await?.reader_key(seconds);
    Ok((StatusCode::CREATED, Json(KeyReply { key })))
}

/// `POST /v1/fulgurite/keys/model-calls`: a key that opens model calls for so many seconds, and nothing else.
pub(super) async fn issue(State(store): State<Store>, body: Body) -> Created<KeyReply> {
    let KeyRequest { seconds } = body.parse()?;
    let key = store.issued_keys().await?.model_calls_key(seconds);
    Ok((StatusCode::CREATED, Json(KeyReply { key })))
}
