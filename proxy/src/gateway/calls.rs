use axum::extract::{Path, Request, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::GatewayError;
use super::models::model_of_call;
use super::pause::{InFlight, check_open};
use crate::Proxy;
use crate::answering::{Caller, answer};
use crate::error::ProxyError;
use crate::openai::{chat_request, completion_request, responses};
use crate::request_body::{parse, read_body};
use crate::whose_call::WhoseCall;

#[derive(Deserialize)]
pub(crate) struct GatewayPath {
    rollout_id: String,
    attempt_id: String,
    mode: String,
    endpoint: String,
}

/// `POST /proxy/rollout/{rollout_id}/attempt/{attempt_id}/mode/{mode}/openai/v1/{endpoint}`: a call whose model and
/// temperature are not the agent's to choose. An attempt that is not there yet begins with it.
///
/// Unlike Agent-lightning's own gateway, it streams where it is asked to, and takes Responses.
pub(crate) async fn call(
    State(proxy): State<Proxy>,
    Path(path): Path<GatewayPath>,
    incoming: Request,
) -> Result<Response, GatewayError> {
    let options = &proxy.shared.options;
    let temperature = match path.mode.as_str() {
        "train" => options.train_temperature,
        "val" => options.val_temperature,
        _ => return Err(GatewayError::UnknownMode(path.mode)),
    };
    if !["chat/completions", "completions", "responses"].contains(&path.endpoint.as_str()) {
        return Err(GatewayError::UnknownEndpoint(path.endpoint));
    }
    let in_flight = InFlight::enter(&proxy)?;
    if proxy.shared.store.get_rollout(&path.rollout_id).await.map_err(ProxyError::from)?.is_none() {
        return Err(GatewayError::UnknownRollout(path.rollout_id));
    }
    let caller = Caller {
        // Its path says it all: headers that say otherwise are none of Agent-lightning's.
        whose: WhoseCall::Attempt { rollout_id: path.rollout_id, attempt_id: Some(path.attempt_id) },
        begins_attempt: true,
        in_flight: Some(in_flight),
        ..Caller::default()
    }
    .told_by(&incoming)?;
    let mut body = parse(&read_body(incoming.into_body(), &proxy).await?)?;
    let model = model_of_call(&proxy, body.get("model").and_then(Value::as_str))?;
    check_open(&proxy, &model)?;
    for (key, value) in
        [("model", json!(model)), ("temperature", json!(temperature)), ("return_token_ids", json!(true))]
    {
        body.insert(key.to_owned(), value);
    }
    let request = match path.endpoint.as_str() {
        "chat/completions" => chat_request::read(body)?,
        "completions" => completion_request::read(body)?,
        _ => responses::read(body, &proxy, caller.whose.named_rollout()).await?,
    };
    Ok(answer(&proxy, caller, request).await?)
}
