use std::time::Instant;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use fulgurite_store::{KeyHolder, LONGEST_ID};
use serde::Deserialize;
use serde_json::{Value, json};

use super::called_model::{ModelOfCall, model_of_call};
use super::error::GatewayError;
use super::failed_call::PendingCall;
use crate::base_url::right_base_url;
use crate::call::answer_request::answer;
use crate::dialects::openai::{chat_request, completion_request};
use crate::endpoints::responses;
use crate::error::ProxyError;
use crate::models::pause_state::InFlight;
use crate::parts::Parts;
use crate::proxy::Proxy;
use crate::requests::call_target::CallTarget;
use crate::requests::caller::Caller;
use crate::requests::incoming_request::IncomingRequest;
use crate::upstream::forward_call::forward_call;
use crate::upstream::route::Route;

#[derive(Deserialize)]
pub(crate) struct GatewayPath {
    rollout_id: String,
    attempt_id: String,
    mode: String,
    endpoint: String,
}

/// `POST /proxy/rollout/{rollout_id}/attempt/{attempt_id}/mode/{mode}/openai/v1/{endpoint}`: a call whose model and
/// temperature are not the agent's to choose. An attempt that is not there yet begins with it, unless the key is another
/// attempt's: with a new attempt come a new budget, and the rollout's outcome. A call that fails leaves an event.
///
/// Unlike Agent-lightning's own gateway, it streams on request, and takes Responses.
pub(crate) async fn call(
    State(proxy): State<Proxy>,
    Path(path): Path<GatewayPath>,
    request: Request,
) -> Result<Response, GatewayError> {
    let Parts { options, models, services, gateway_pause, registered_models, .. } = &*proxy.parts;
    let temperature = match path.mode.as_str() {
        "train" => options.train_temperature,
        "val" => options.val_temperature,
        _ => return Err(GatewayError::UnknownMode(path.mode)),
    };
    let Some(route) = Route::of_openai(&path.endpoint) else {
        let base_url = right_base_url(request.uri(), request.headers());
        return Err(GatewayError::UnknownEndpoint { endpoint: path.endpoint, base_url });
    };
    if path.attempt_id.len() > LONGEST_ID {
        // Known before anything is sampled for an attempt that could not be recorded.
        let message = format!("attempt_id has {} bytes, and may have {LONGEST_ID}", path.attempt_id.len());
        return Err(GatewayError::Unprocessable { place: vec![json!("path"), json!("attempt_id")], message });
    }
    let started = Instant::now();
    let in_flight = InFlight::enter(gateway_pause)?;
    if services.store.rollouts().get(&path.rollout_id).await.map_err(ProxyError::from)?.is_none() {
        return Err(GatewayError::UnknownRollout(path.rollout_id));
    }
    let begins_attempt = begins_attempt(request.extensions().get(), &path);
    let (rollout_id, attempt_id) = (path.rollout_id.clone(), path.attempt_id.clone());
    let caller = Caller {
        // Its path names everything: other headers are not Agent-lightning's.
        target: CallTarget::Attempt { rollout_id: path.rollout_id, attempt_id: Some(path.attempt_id) },
        begins_attempt,
        in_flight: Some(in_flight),
        ..Caller::default()
    }
    .with_headers(&request)?;
    let mut incoming = IncomingRequest::of(proxy.parts.intake(), caller, request).await?;
    let model = model_of_call(models, registered_models, incoming.fields.get("model").and_then(Value::as_str))?;
    model.check_open(models)?;
    incoming.set([("model", json!(model.name())), ("temperature", json!(temperature))]);
    if model.reports_token_ids() {
        incoming.set([("return_token_ids", json!(true))]);
    }
    if model.is_registered() && path.mode == "train" && route == Route::ChatCompletions {
        incoming.set([("logprobs", json!(true))]);
    }
    let model_name = model.name().to_owned();
    let request = incoming.body.clone();
    let pending = PendingCall { rollout_id, attempt_id, model: model_name, request, started };
    let result = answered(&proxy, &model, route, incoming).await;
    Ok(pending.ended(&services.store, result).await)
}

/// Whether a call with this key may begin the attempt that its path names.
fn begins_attempt(holder: Option<&KeyHolder>, path: &GatewayPath) -> bool {
    match holder {
        Some(KeyHolder::Attempt { rollout_id, attempt_id }) => {
            (rollout_id, attempt_id) == (&path.rollout_id, &path.attempt_id)
        }
        Some(
            KeyHolder::Admin
            | KeyHolder::Grader { .. }
            | KeyHolder::ModelCalls
            | KeyHolder::Reader
            | KeyHolder::Worker { .. },
        )
        | None => true,
    }
}

/// The answer of the call's model.
async fn answered(
    proxy: &Proxy,
    model: &ModelOfCall,
    route: Route,
    incoming: IncomingRequest,
) -> Result<Response, GatewayError> {
    if let Some(upstream) = model.upstream() {
        return Ok(forward_call(&proxy.parts, upstream, route, incoming).await?);
    }
    let large_requests = &proxy.parts.large_requests;
    let IncomingRequest { caller, fields, .. } = incoming;
    let request = match route {
        Route::ChatCompletions => caller.size.work(large_requests, || chat_request::read(fields)).await??,
        Route::Completions => caller.size.work(large_requests, || completion_request::read(fields)).await??,
        _ => responses::read(fields, proxy, &caller).await?,
    };
    Ok(answer(&proxy.parts, caller, request).await?)
}
