use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::{Map, Value};

use super::error::OpenAiError;
use super::{chat_request, completion_request};
use crate::call::answer_request::answer;
use crate::call::model_request::ModelRequest;
use crate::error::ProxyError;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::incoming_request::IncomingRequest;
use crate::upstream::forward_call::forward_call;
use crate::upstream::route::Route;

/// `POST /v1/chat/completions`, also below an attempt's path.
pub(crate) async fn chat_completions(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    call(&proxy, path, request, Route::ChatCompletions, chat_request::read).await
}

/// `POST /v1/completions`, also below an attempt's path.
pub(crate) async fn completions(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    call(&proxy, path, request, Route::Completions, completion_request::read).await
}

/// `POST /v1/embeddings`, also below an attempt's path: of models whose calls are forwarded.
pub(crate) async fn embeddings(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    call(&proxy, path, request, Route::Embeddings, |fields| {
        let model = fields.get("model").and_then(Value::as_str).unwrap_or_default();
        let message =
            format!("`{model}` gives no embeddings: only calls that are passed on to an upstream may ask for them");
        Err(ProxyError::invalid("model", message))
    })
    .await
}

async fn call(
    proxy: &Proxy,
    path: CallPath,
    request: Request,
    route: Route,
    read: fn(Map<String, Value>) -> Result<ModelRequest, ProxyError>,
) -> Result<Response, OpenAiError> {
    let incoming = IncomingRequest::read(proxy, path, request).await?;
    if let Some(model) = proxy.shared.models.upstream_of(&incoming.fields) {
        return Ok(forward_call(proxy, model, route, incoming).await?);
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let request = caller.size.work(&proxy.shared.large_requests, || read(fields)).await??;
    Ok(answer(proxy, caller, request).await?)
}
