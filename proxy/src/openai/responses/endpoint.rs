use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::earlier_responses::{EarlierResponses, visible_response};
use super::recorded_response::recorded_response;
use super::response_request;
use crate::Proxy;
use crate::answering::{Caller, answer};
use crate::error::ProxyError;
use crate::model_request::ModelRequest;
use crate::openai::error::OpenAiError;
use crate::request_body::{parse, read_body};
use crate::whose_call::{CallPath, WhoseCall};

/// `POST /v1/responses`, also below an attempt's path.
pub(crate) async fn create(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let caller = Caller::new(path, &request)?;
    let body = parse(&read_body(request.into_body(), &proxy).await?)?;
    let request = read(body, &proxy, caller.whose.named_rollout()).await?;
    Ok(answer(&proxy, caller, request).await?)
}

/// Reads and checks a request of a caller of that rollout or of none, who may go on from responses of its own.
pub(crate) async fn read(
    body: Map<String, Value>,
    proxy: &Proxy,
    rollout_id: Option<&str>,
) -> Result<ModelRequest, ProxyError> {
    let earlier = EarlierResponses::named_in(&body, proxy, rollout_id).await?;
    response_request::read(body, &earlier)
}

/// The path of a response, which may be below an attempt's.
#[derive(Debug, Deserialize)]
pub(crate) struct ResponsePath {
    response_id: String,
    #[serde(flatten)]
    call: CallPath,
}

/// `GET /v1/responses/{response_id}`, also below an attempt's path.
pub(crate) async fn retrieve(
    State(proxy): State<Proxy>,
    Path(ResponsePath { response_id, call }): Path<ResponsePath>,
    request: Request,
) -> Result<Json<Value>, OpenAiError> {
    let whose = WhoseCall::read(call, request.headers(), request.extensions())?;
    let found = visible_response(&proxy, whose.named_rollout(), &response_id).await.map_err(ProxyError::from)?;
    match found {
        Some(call) => Ok(Json(recorded_response(&call))),
        None => Err(ProxyError::UnknownTarget { kind: "response", id: response_id }.into()),
    }
}
