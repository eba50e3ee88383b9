use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::GatewayError;
use crate::Proxy;
use crate::models::gate::Holder;

/// Lets the gateway's calls in, unless it is paused, and counts those under way.
#[derive(Default)]
pub(crate) struct Gateway {
    state: Mutex<GatewayState>,
}

/// What `GET /proxy/state` tells.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GatewayState {
    paused: bool,
    retry_after_seconds: u64,
    reason: Option<String>,
    inflight: u64,
}

/// Seconds after which a paused client is to try again, if nobody says.
const RETRY_AFTER_SECONDS: u64 = 5;

impl Default for GatewayState {
    fn default() -> Self {
        Self { paused: false, retry_after_seconds: RETRY_AFTER_SECONDS, reason: None, inflight: 0 }
    }
}

impl Gateway {
    fn state(&self) -> MutexGuard<'_, GatewayState> {
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
        let mut state = proxy.shared.gateway.state();
        let GatewayState { paused, retry_after_seconds, .. } = *state;
        if paused {
            return Err(GatewayError::Paused { retry_after_seconds, reason: state.reason.clone() });
        }
        state.inflight += 1;
        Ok(Self { proxy: proxy.clone() })
    }
}

/// Refuses calls to a model that is paused by itself.
pub(super) fn check_open(proxy: &Proxy, model: &str) -> Result<(), GatewayError> {
    let gate = proxy.gate(model)?.state();
    match gate.is_paused() {
        true => Err(GatewayError::Paused {
            retry_after_seconds: RETRY_AFTER_SECONDS,
            reason: gate.reason().map(str::to_owned),
        }),
        false => Ok(()),
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.proxy.shared.gateway.state().inflight -= 1;
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

/// `POST /proxy/pause`: calls that come from now on are told to come again later, and other dialects' calls, whose
/// clients may take that for the end, are held. Those under way go on.
pub(crate) async fn pause(State(proxy): State<Proxy>, body: Bytes) -> Result<Json<GatewayState>, GatewayError> {
    // Without a body, everything is as by default.
    let body: &[u8] = if body.is_empty() { b"{}" } else { &body };
    let request: PauseRequest = super::registered_models::read(body)?;
    proxy.shared.gates.values().for_each(|gate| gate.pause(Holder::Gateway, request.reason.clone()));
    let mut state = proxy.shared.gateway.state();
    state.paused = true;
    state.retry_after_seconds = request.retry_after_seconds;
    state.reason = request.reason;
    Ok(Json(state.clone()))
}

/// `POST /proxy/resume`. A model that is paused by itself stays so.
pub(crate) async fn resume(State(proxy): State<Proxy>) -> Json<GatewayState> {
    proxy.shared.gates.values().for_each(|gate| gate.resume(Holder::Gateway));
    let mut state = proxy.shared.gateway.state();
    state.paused = false;
    state.reason = None;
    Json(state.clone())
}

/// `GET /proxy/state`.
pub(crate) async fn state(State(proxy): State<Proxy>) -> Json<Value> {
    Json(serde_json::json!(*proxy.shared.gateway.state()))
}
