use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::error::{RequestId, response};
use super::message_request::{read, read_prompt};
use crate::call::answer_request::answer;
use crate::error::ProxyError;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::incoming_request::IncomingRequest;
use crate::upstream::forward_call::forward_call;
use crate::upstream::route::Route;

/// `POST /v1/messages`, also below an attempt's path.
pub(crate) async fn messages(State(proxy): State<Proxy>, Path(path): Path<CallPath>, request: Request) -> Response {
    let id = RequestId::new();
    match call(&proxy, path, request, &id).await {
        Ok(answered) => id.on(answered),
        Err(error) => response(&error, &id),
    }
}

async fn call(proxy: &Proxy, path: CallPath, request: Request, id: &RequestId) -> Result<Response, Arc<ProxyError>> {
    let incoming = IncomingRequest::read(proxy, path, request).await?;
    if let Some(model) = proxy.shared.models.upstream_of(&incoming.fields) {
        return forward_call(proxy, model, Route::Messages, incoming).await;
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let request = caller.size.work(&proxy.shared.large_requests, || read(fields, id.clone())).await??;
    answer(proxy, caller, request).await
}

/// `POST /v1/messages/count_tokens`, also below an attempt's path: how long the prompt of such a request is.
pub(crate) async fn count_tokens(State(proxy): State<Proxy>, request: Request) -> Response {
    let id = RequestId::new();
    match counted(&proxy, request).await {
        Ok(counted) => id.on(counted),
        Err(error) => response(&error, &id),
    }
}

async fn counted(proxy: &Proxy, request: Request) -> Result<Response, Arc<ProxyError>> {
    let incoming = IncomingRequest::read(proxy, CallPath::default(), request).await?;
    if let Some(model) = proxy.shared.models.upstream_of(&incoming.fields) {
        return forward_call(proxy, model, Route::CountTokens, incoming).await;
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let prompt = caller.size.work(&proxy.shared.large_requests, || read_prompt(fields)).await??;
    let models = &proxy.shared.models;
    let model = models.with_template_arguments(models.sampled(&prompt.model)?, &prompt.rest)?.model;
    let render = || model.renderer.render_prompt(&prompt.messages, &prompt.tools.shown);
    let rendered = caller.size.work(&proxy.shared.large_requests, render).await?.map_err(ProxyError::from)?;
    Ok(axum::Json(json!({ "input_tokens": rendered.tokens.len() })).into_response())
}
