use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use fulgurite_types::Defect;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::earlier_responses::{EarlierResponses, visible_response};
use super::recorded_response::recorded_response;
use super::response_request;
use crate::call::answer_request::answer;
use crate::call::model_request::ModelRequest;
use crate::dialects::openai::error::OpenAiError;
use crate::error::ProxyError;
use crate::proxy::{Proxy, Shared};
use crate::requests::call_target::{CallPath, CallTarget};
use crate::requests::caller::Caller;
use crate::requests::incoming_request::IncomingRequest;
use crate::upstream::forward_call::forward_call;
use crate::upstream::retrieve_response::retrieve as retrieve_upstream;
use crate::upstream::route::Route;

/// `POST /v1/responses`, also below an attempt's path.
pub(crate) async fn create(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let incoming = IncomingRequest::read(&proxy, path, request).await?;
    if let Some(model) = proxy.shared.models.upstream_of(&incoming.fields) {
        return Ok(forward_call(&proxy, model, Route::Responses, incoming).await?);
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let request = read(fields, &proxy, &caller).await?;
    Ok(answer(&proxy, caller, request).await?)
}

/// Reads and checks a request, which may continue responses of the caller's own rollout, or of none.
pub(crate) async fn read(body: Map<String, Value>, proxy: &Proxy, caller: &Caller) -> Result<ModelRequest, ProxyError> {
    let earlier =
        EarlierResponses::named_in(&body, &proxy.shared.services.store, caller.target.named_rollout()).await?;
    caller.size.work(&proxy.shared.large_requests, || response_request::read(body, &earlier)).await?
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
) -> Result<Response, OpenAiError> {
    let Shared { options, models, services, .. } = &*proxy.shared;
    let target = CallTarget::read(call, request.headers(), request.extensions())?;
    let found =
        visible_response(&services.store, target.named_rollout(), &response_id).await.map_err(ProxyError::from)?;
    match found {
        Some(call) if call.generation.defect == Some(Defect::Upstream) => {
            let unknown = || ProxyError::UnknownTarget { kind: "response", id: response_id.clone() };
            let model = models.upstream(&call.generation.model).ok_or_else(unknown)?;
            let (limits, query) = (options.sampling_limits, request.uri().query());
            Ok(retrieve_upstream(limits, model, &response_id, request.headers(), query).await?)
        }
        Some(call) => Ok(Json(recorded_response(&call)).into_response()),
        None => Err(ProxyError::UnknownTarget { kind: "response", id: response_id }.into()),
    }
}
