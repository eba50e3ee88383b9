use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::GatewayError;
use crate::Proxy;

/// Lets the gateway's calls in, unless it is paused, and counts those under way.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
}

/// What `GET /proxy/state` tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GateState {
    paused: bool,
    retry_after_seconds: u64,
    reason: Option<String>,
    inflight: u64,
}

/// Seconds after which a paused client is to try again, if nobody says.
const RETRY_AFTER_SECONDS: u64 = 5;

impl Default for GateState {
    fn default() -> Self {
        Self { paused: false, retry_after_seconds: RETRY_AFTER_SECONDS, reason: None, inflight: 0 }
    }
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        // The state is whole after every statement, so a poisoned lock holds nothing broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way; it is over when this is dropped.
pub(crate) struct InFlight {
    proxy: Proxy,
}

impl InFlight {
    /// Counts a call in, or says that the gateway is paused.
    pub(crate) fn enter(proxy: &Proxy) -> Result<Self, GatewayError> {
        let mut state = proxy.shared.gate.state();
        if state.paused {
            let GateState { retry_after_seconds, reason, .. } = state.clone();
            return Err(GatewayError::Paused { retry_after_seconds, reason });
        }
        state.inflight += 1;
        Ok(Self { proxy: proxy.clone() })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.proxy.shared.gate.state().inflight -= 1;
    }
}

#[derive(Deserialize)]
struct PauseRequest {
    #[serde(default = "retry_after_seconds")]
    retry_after_seconds: u64,
    reason: Option<String>,
}

fn retry_after_seconds() -> u64 {
    RETRY_AFTER_SECONDS
}

/// `POST /proxy/pause`: calls that come from now on are told to come again later. Those under way go on.
pub(crate) async fn pause(State(proxy): State<Proxy>, body: Bytes) -> Result<Json<GateState>, GatewayError> {
    // Without a body, everything is as by default.
    let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
    let request: PauseRequest = super::models::read(body)?;
    let mut state = proxy.shared.gate.state();
    state.paused = true;
    state.retry_after_seconds = request.retry_after_seconds;
    state.reason = request.reason;
    Ok(Json(state.clone()))
}

/// `POST /proxy/resume`.
pub(crate) async fn resume(State(proxy): State<Proxy>) -> Json<GateState> {
    let mut state = proxy.shared.gate.state();
    state.paused = false;
    state.reason = None;
    Json(state.clone())
}

/// `GET /proxy/state`.
pub(crate) async fn state(State(proxy): State<Proxy>) -> Json<Value> {
    Json(serde_json::json!(*proxy.shared.gate.state()))
}
