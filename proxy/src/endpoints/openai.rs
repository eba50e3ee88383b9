use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde_json::{Map, Value};

use crate::call::answer_request::answer;
use crate::dialects::openai::error::OpenAiError;
use crate::dialects::openai::{chat_request, completion_request};
use crate::error::ProxyError;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::incoming_request::IncomingRequest;
use crate::requests::model_request::ModelRequest;
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
    let incoming = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    if let Some(model) = proxy.parts.models.upstream_of(&incoming.fields) {
        return Ok(forward_call(&proxy.parts, model, route, incoming).await?);
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let request = caller.size.work(&proxy.parts.large_requests, || read(fields)).await??;
    Ok(answer(&proxy.parts, caller, request).await?)
}
