use std::sync::Arc;

use axum::response::Response;

use crate::call::admit::admit;
use crate::call::place::{Placement, place};
use crate::call::plan::plan;
use crate::call::respond::respond;
use crate::call::sample::sample;
use crate::error::ProxyError;
use crate::parts::Parts;
use crate::requests::caller::Caller;
use crate::requests::model_request::ModelRequest;

/// Answers a checked request: the way of a call, stage by stage, up to its client. What is sampled is recorded apart from
/// that, and goes on when the client leaves.
pub(crate) async fn answer(parts: &Parts, caller: Caller, request: ModelRequest) -> Result<Response, Arc<ProxyError>> {
    let admitted = admit(parts, caller, request).await?;
    let placed = match place(parts, admitted).await? {
        Placement::Joined(answered) => return respond(parts, *answered).await,
        Placement::Open(placed) => placed,
    };
    let planned = plan(parts, *placed).await?;
    let answered = sample(parts, planned);
    respond(parts, answered).await
}
