use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::{Map, Value};

use super::error::OpenAiError;
use super::{chat_request, completion_request};
use crate::Proxy;
use crate::answering::{Caller, answer};
use crate::error::ProxyError;
use crate::model_request::ModelRequest;
use crate::request_body::{parse, read_body};
use crate::whose_call::CallPath;

/// `POST /v1/chat/completions`, also below an attempt's path.
pub(crate) async fn chat_completions(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    call(&proxy, path, request, chat_request::read).await
}

/// `POST /v1/completions`, also below an attempt's path.
pub(crate) async fn completions(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    call(&proxy, path, request, completion_request::read).await
}

async fn call(
    proxy: &Proxy,
    path: CallPath,
    request: Request,
    read: fn(Map<String, Value>) -> Result<ModelRequest, ProxyError>,
) -> Result<Response, OpenAiError> {
    let caller = Caller::new(path, &request)?;
    let body = parse(&read_body(request.into_body(), proxy).await?)?;
    Ok(answer(proxy, caller, read(body)?).await?)
}
