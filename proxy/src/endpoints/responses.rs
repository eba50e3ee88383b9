use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, Request, State};
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use fulgurite_renderers::Renderer;
use fulgurite_types::{Defect, exact_json};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::call::answer_request::answer;
use crate::dialects::field_checks::refuse;
use crate::dialects::openai::error::OpenAiError;
use crate::dialects::openai::responses::earlier_responses::{EarlierResponses, named_responses};
use crate::dialects::openai::responses::record_marks::is_compaction;
use crate::dialects::openai::responses::recorded_response::{recorded_input, recorded_response, recorded_stream};
use crate::dialects::openai::responses::response_request;
use crate::error::ProxyError;
use crate::models::served_models::ServedModels;
use crate::parts::Parts;
use crate::proxy::Proxy;
use crate::record::deleted_responses::mark_as_deleted;
use crate::record::recorded_call::RecordedCall;
use crate::record::visible_response::visible_response;
use crate::requests::call_target::{CallPath, CallTarget};
use crate::requests::caller::Caller;
use crate::requests::incoming_request::IncomingRequest;
use crate::requests::model_request::{ModelRequest, Prompt};
use crate::upstream::forward_call::forward_call;
use crate::upstream::retrieve_response::retrieve as retrieve_upstream;
use crate::upstream::route::Route;

/// `POST /v1/responses`, also below an attempt's path.
pub(crate) async fn create(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let incoming = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    if let Some(model) = proxy.parts.models.upstream_of(&incoming.fields) {
        return Ok(forward_call(&proxy.parts, model, Route::Responses, incoming).await?);
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let request = read(fields, &proxy, &caller).await?;
    Ok(answer(&proxy.parts, caller, request).await?)
}

/// Reads and checks a request, which may continue responses of the caller's own rollout, or of none.
pub(crate) async fn read(body: Map<String, Value>, proxy: &Proxy, caller: &Caller) -> Result<ModelRequest, ProxyError> {
    read_by(response_request::read, body, proxy, caller).await
}

/// Reads a request that may name earlier responses, which are looked up first.
pub(super) async fn read_by(
    read: impl FnOnce(Map<String, Value>, &EarlierResponses) -> Result<ModelRequest, ProxyError>,
    body: Map<String, Value>,
    proxy: &Proxy,
    caller: &Caller,
) -> Result<ModelRequest, ProxyError> {
    let (store, rollout_id) = (&proxy.parts.services.store, caller.target.named_rollout());
    let mut found = HashMap::new();
    for id in named_responses(&body) {
        if let Some(call) = visible_response(store, rollout_id, &id).await? {
            found.insert(id, call);
        }
    }
    let earlier = EarlierResponses::new(found);
    caller.size.work(&proxy.parts.large_requests, || read(body, &earlier)).await?
}

/// The path of a response, which may be below an attempt's.
#[derive(Debug, Deserialize)]
pub(crate) struct ResponsePath {
    response_id: String,
    #[serde(flatten)]
    call: CallPath,
}

/// How a response is to be given again.
#[derive(Debug, Default, Deserialize)]
struct RetrieveQuery {
    stream: Option<bool>,
    starting_after: Option<u64>,
}

/// `GET /v1/responses/{response_id}`, also below an attempt's path; with `stream=true` as events.
pub(crate) async fn retrieve(
    State(proxy): State<Proxy>,
    Path(ResponsePath { response_id, call }): Path<ResponsePath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let Parts { options, models, .. } = &*proxy.parts;
    let target = CallTarget::read(call, request.headers(), request.extensions())?;
    let call = found(&proxy, &target, &response_id).await?;
    if call.generation.defect == Some(Defect::Upstream) {
        let model = models.upstream(&call.generation.model).ok_or_else(|| unknown(&response_id))?;
        let (limits, query) = (options.sampling_limits, request.uri().query());
        return Ok(retrieve_upstream(limits, model, Method::GET, &response_id, request.headers(), query).await?);
    }
    let RetrieveQuery { stream, starting_after } = query_of(&request)?;
    if stream == Some(true) {
        if is_compaction(&call) {
            refuse("stream", "true is not supported: a compaction has no events")?;
        }
        let kind = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
        let renderer = recorded_renderer(models, &call).await;
        return Ok((kind, recorded_stream(&call, renderer.as_deref(), starting_after)).into_response());
    }
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let renderer = recorded_renderer(models, &call).await;
    Ok((kind, exact_json(&recorded_response(&call, renderer.as_deref()))).into_response())
}

/// The renderer of the model that sampled a recorded response, with its request's template arguments, if the model is
/// still served.
async fn recorded_renderer(models: &ServedModels, call: &RecordedCall) -> Option<Arc<dyn Renderer>> {
    let model = models.recorded(&call.generation.model)?;
    let owner = || format!("{}/{}", call.generation.rollout_id, call.generation.attempt_id);
    models.with_template_arguments(&model, &call.request_extra, owner).await.ok().map(|adapted| adapted.model.renderer)
}

/// `DELETE /v1/responses/{response_id}`, also below an attempt's path: it is not found any more, and nothing goes on from
/// it. What was recorded of the call stays. One that an upstream keeps is deleted there.
pub(crate) async fn delete(
    State(proxy): State<Proxy>,
    Path(ResponsePath { response_id, call }): Path<ResponsePath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let Parts { options, models, services, .. } = &*proxy.parts;
    let target = CallTarget::read(call, request.headers(), request.extensions())?;
    let headers = request.headers().clone();
    drop(request);
    let call = found(&proxy, &target, &response_id).await?;
    let mut of_upstream = None;
    if call.generation.defect == Some(Defect::Upstream) {
        let model = models.upstream(&call.generation.model).ok_or_else(|| unknown(&response_id))?;
        let limits = options.sampling_limits;
        let reply = retrieve_upstream(limits, model, Method::DELETE, &response_id, &headers, None).await?;
        if !reply.status().is_success() {
            return Ok(reply);
        }
        of_upstream = Some(reply);
    }
    mark_as_deleted(&services.store, &call).await.map_err(ProxyError::from)?;
    let deleted = || Json(json!({ "id": response_id, "object": "response", "deleted": true })).into_response();
    Ok(of_upstream.unwrap_or_else(deleted))
}

/// Which part of a response's input is asked for.
#[derive(Debug, Default, Deserialize)]
struct ItemsQuery {
    limit: Option<usize>,
    order: Option<String>,
    after: Option<String>,
}

/// Items of a page, unless its client says another number, and the most.
const ITEMS: usize = 20;
const MOST_ITEMS: usize = 100;

/// `GET /v1/responses/{response_id}/input_items`, also below an attempt's path.
pub(crate) async fn list_input_items(
    State(proxy): State<Proxy>,
    Path(ResponsePath { response_id, call }): Path<ResponsePath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let target = CallTarget::read(call, request.headers(), request.extensions())?;
    let ItemsQuery { limit, order, after } = query_of(&request)?;
    let call = found(&proxy, &target, &response_id).await?;
    let limit = limit.unwrap_or(ITEMS);
    if !(1..=MOST_ITEMS).contains(&limit) {
        refuse("limit", &format!("must be from 1 to {MOST_ITEMS}"))?;
    }
    let mut items = recorded_input(&call);
    match order.as_deref() {
        None | Some("desc") => items.reverse(),
        Some("asc") => {}
        Some(_) => refuse("order", "must be asc or desc")?,
    }
    if let Some(after) = after {
        let Some(place) = items.iter().position(|item| item["id"] == after.as_str()) else {
            return Err(ProxyError::invalid("after", format!("after: there is no item `{after}`")).into());
        };
        items.drain(..=place);
    }
    let has_more = items.len() > limit;
    items.truncate(limit);
    let id = |item: Option<&Value>| item.map(|item| item["id"].clone());
    Ok(Json(json!({
        "object": "list", "first_id": id(items.first()), "last_id": id(items.last()), "has_more": has_more, "data": items,
    }))
    .into_response())
}

/// `POST /v1/responses/{response_id}/cancel`: none is made in the background, so that there is none to cancel.
pub(crate) async fn cancel(
    State(proxy): State<Proxy>,
    Path(ResponsePath { response_id, call }): Path<ResponsePath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let target = CallTarget::read(call, request.headers(), request.extensions())?;
    found(&proxy, &target, &response_id).await?;
    let message =
        format!("response_id: `{response_id}` was not made in the background: hang up to end one that is made");
    Err(ProxyError::invalid("response_id", message).into())
}

/// `POST /v1/responses/input_tokens`, also below an attempt's path: how long the prompt of such a request is.
pub(crate) async fn input_tokens(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let IncomingRequest { caller, fields, .. } = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    let request = read(fields, &proxy, &caller).await?;
    let models = &proxy.parts.models;
    let called = models.called(&request.model, &caller.key)?.model;
    let model = models.with_template_arguments(&called, &request.extra, || caller.target.owner()).await?.model;
    let prompt = request.prompt;
    let render = move || match &prompt {
        Prompt::Messages(conversation) => {
            model.renderer.render_prompt(&conversation.messages, &conversation.tools).map(|prompt| prompt.tokens.len())
        }
        Prompt::Text { .. } | Prompt::Tokens(_) => Ok(0),
    };
    let tokens = caller.render(&proxy.parts.templates, render).await?.map_err(ProxyError::from)?;
    Ok(Json(json!({ "object": "response.input_tokens", "input_tokens": tokens })).into_response())
}

/// The recorded call of a response that the caller may see.
async fn found(proxy: &Proxy, target: &CallTarget, response_id: &str) -> Result<RecordedCall, ProxyError> {
    let found = visible_response(&proxy.parts.services.store, target.named_rollout(), response_id).await?;
    found.ok_or_else(|| unknown(response_id))
}

fn unknown(response_id: &str) -> ProxyError {
    ProxyError::UnknownTarget { kind: "response", id: response_id.to_owned() }
}

fn query_of<T: DeserializeOwned>(request: &Request) -> Result<T, ProxyError> {
    let query = Query::try_from_uri(request.uri());
    query.map(|Query(query)| query).map_err(|error| ProxyError::InvalidRequest {
        message: error.body_text(),
        parameter: None,
        code: None,
    })
}
