use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use uuid::Uuid;

use crate::call::answer_request::answer;
use crate::dialects::anthropic::conversation::CALL_INPUTS;
use crate::dialects::anthropic::error::{RequestId, response};
use crate::dialects::anthropic::message_request::{read, read_prompt};
use crate::error::ProxyError;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::exact_json::ExactValues;
use crate::requests::incoming_request::IncomingRequest;
use crate::upstream::forward_call::forward_call;
use crate::upstream::route::Route;

/// `POST /v1/messages`, also below an attempt's path.
pub(crate) async fn messages(State(proxy): State<Proxy>, Path(path): Path<CallPath>, request: Request) -> Response {
    let id = RequestId::of(Uuid::now_v7());
    match call(&proxy, path, request, &id).await {
        Ok(answered) => id.on(answered),
        Err(error) => response(&error, &id),
    }
}

async fn call(proxy: &Proxy, path: CallPath, request: Request, id: &RequestId) -> Result<Response, Arc<ProxyError>> {
    let incoming = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    if let Some(model) = proxy.parts.models.upstream_of(&incoming.fields) {
        return forward_call(&proxy.parts, model, Route::Messages, incoming).await;
    }
    let IncomingRequest { caller, fields, headers, body, .. } = incoming;
    let streams_calls = streams_calls(&headers);
    let read = || read(fields, &ExactValues::read(&body, &[CALL_INPUTS]), streams_calls, id.clone());
    let request = caller.size.work(&proxy.parts.large_requests, read).await??;
    answer(&proxy.parts, caller, request).await
}

/// Whether the arguments of calls are streamed as they are sampled, unless their tool says otherwise. Where Anthropic's own
/// libraries add up a stream, they fail at a call that breaks, so that they get it whole unless they want it as it comes.
fn streams_calls(headers: &HeaderMap) -> bool {
    let states = |header: &str, what: &str| {
        let mut values = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
        values.any(|value| value.contains(what))
    };
    !states("x-stainless-helper-method", "stream") || states("anthropic-beta", "fine-grained-tool-streaming")
}

/// `POST /v1/messages/count_tokens`, also below an attempt's path: how long the prompt of such a request is.
pub(crate) async fn count_tokens(State(proxy): State<Proxy>, request: Request) -> Response {
    let id = RequestId::of(Uuid::now_v7());
    match counted(&proxy, request).await {
        Ok(counted) => id.on(counted),
        Err(error) => response(&error, &id),
    }
}

async fn counted(proxy: &Proxy, request: Request) -> Result<Response, Arc<ProxyError>> {
    let incoming = IncomingRequest::read(proxy.parts.intake(), CallPath::default(), request).await?;
    if let Some(model) = proxy.parts.models.upstream_of(&incoming.fields) {
        return forward_call(&proxy.parts, model, Route::CountTokens, incoming).await;
    }
    let IncomingRequest { caller, fields, body, .. } = incoming;
    let read = || read_prompt(fields, &ExactValues::read(&body, &[CALL_INPUTS]));
    let prompt = caller.size.work(&proxy.parts.large_requests, read).await??;
    let models = &proxy.parts.models;
    let called = models.called(&prompt.model, &caller.key)?.model;
    let model = models.with_template_arguments(&called, &prompt.rest, || caller.target.owner()).await?.model;
    let render = move || model.renderer.render_prompt(&prompt.messages, &prompt.tools.shown);
    let rendered = caller.render(&proxy.parts.templates, render).await?.map_err(ProxyError::from)?;
    Ok(axum::Json(json!({ "input_tokens": rendered.tokens.len() })).into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn calls_are_streamed_but_to_who_adds_up_a_stream_and_does_not_ask_for_it() {
        let of = |headers: &[(&'static str, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
            streams_calls(&headers.collect::<HeaderMap>())
        };
        let helper = ("x-stainless-helper-method", "stream");
        let beta = ("anthropic-beta", "context-1m, fine-grained-tool-streaming-2025-05-14");
        assert_eq!([of(&[]), of(&[helper]), of(&[helper, beta]), of(&[beta])], [true, false, true, true]);
    }
}
