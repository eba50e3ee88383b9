use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::error::{RequestId, response};
use super::message_request::{read, read_prompt};
use crate::Proxy;
use crate::answering::{Caller, answer};
use crate::error::ProxyError;
use crate::request_body::{parse, read_body};
use crate::whose_call::CallPath;

/// `POST /v1/messages`, also below an attempt's path.
pub(crate) async fn messages(State(proxy): State<Proxy>, Path(path): Path<CallPath>, request: Request) -> Response {
    let id = RequestId::new();
    match call(&proxy, path, request, &id).await {
        Ok(answered) => id.on(answered),
        Err(error) => response(&error, &id),
    }
}

async fn call(proxy: &Proxy, path: CallPath, request: Request, id: &RequestId) -> Result<Response, Arc<ProxyError>> {
    let caller = Caller::new(path, &request)?;
    let body = parse(&read_body(request.into_body(), proxy).await?)?;
    answer(proxy, caller, read(body, id.clone())?).await
}

/// `POST /v1/messages/count_tokens`, also below an attempt's path: how long the prompt of such a request is.
pub(crate) async fn count_tokens(State(proxy): State<Proxy>, request: Request) -> Response {
    let id = RequestId::new();
    match counted(&proxy, request).await {
        Ok(count) => id.on(axum::Json(count).into_response()),
        Err(error) => response(&error, &id),
    }
}

async fn counted(proxy: &Proxy, request: Request) -> Result<Value, ProxyError> {
    let body = parse(&read_body(request.into_body(), proxy).await?)?;
    let prompt = read_prompt(body)?;
    let model = proxy.sampled_model(&prompt.model)?;
    let rendered = model.renderer.render_prompt(&prompt.messages, &prompt.tools.shown)?;
    Ok(json!({ "input_tokens": rendered.tokens.len() }))
}
