use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;

use super::error::GatewayError;
use super::json_body::read;
use crate::models::gate::Holder;
use crate::models::pause_state::{GatewayState, RETRY_AFTER_SECONDS};
use crate::proxy::Proxy;

#[derive(Deserialize)]
struct PauseRequest {
    #[serde(default = "retry_after_seconds")]
    retry_after_seconds: u64,
    reason: Option<String>,
}

fn retry_after_seconds() -> u64 {
    RETRY_AFTER_SECONDS
}

/// `POST /proxy/pause`: new calls get a reply to retry later; those of other dialects, whose clients may take that for a
/// failure, are held. Running calls continue.
pub(crate) async fn pause(State(proxy): State<Proxy>, body: Bytes) -> Result<Json<GatewayState>, GatewayError> {
    // Without a body, everything is as by default.
    let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
    let request: PauseRequest = read(body)?;
    proxy.parts.models.gates().for_each(|gate| gate.pause(Holder::Gateway, request.reason.clone()));
    let mut state = proxy.parts.gateway_pause.state();
    state.paused = true;
    state.retry_after_seconds = request.retry_after_seconds;
    state.reason = request.reason;
    Ok(Json(state.clone()))
}

/// `POST /proxy/resume`. A model that is paused by itself stays so.
pub(crate) async fn resume(State(proxy): State<Proxy>) -> Json<GatewayState> {
    proxy.parts.models.gates().for_each(|gate| gate.resume(Holder::Gateway));
    let mut state = proxy.parts.gateway_pause.state();
    state.paused = false;
    state.reason = None;
    Json(state.clone())
}

/// `GET /proxy/state`.
pub(crate) async fn state(State(proxy): State<Proxy>) -> Json<Value> {
    Json(serde_json::json!(*proxy.parts.gateway_pause.state()))
}
