use axum::extract::{Path, Request, State};
use axum::response::Response;

use crate::call::answer_request::answer;
use crate::dialects::openai::error::OpenAiError;
use crate::dialects::openai::responses::compaction::compact_request::read;
use crate::endpoints::responses::read_by;
use crate::proxy::Proxy;
use crate::requests::call_target::CallPath;
use crate::requests::incoming_request::IncomingRequest;
use crate::upstream::forward_call::forward_call;
use crate::upstream::route::Route;

/// `POST /v1/responses/compact`, also below an attempt's path.
pub(crate) async fn compact(
    State(proxy): State<Proxy>,
    Path(path): Path<CallPath>,
    request: Request,
) -> Result<Response, OpenAiError> {
    let incoming = IncomingRequest::read(proxy.parts.intake(), path, request).await?;
    if let Some(model) = proxy.parts.models.upstream_of(&incoming.fields) {
        return Ok(forward_call(&proxy.parts, model, Route::Compaction, incoming).await?);
    }
    let IncomingRequest { caller, fields, .. } = incoming;
    let request = read_by(read, fields, &proxy, &caller).await?;
    Ok(answer(&proxy.parts, caller, request).await?)
}
