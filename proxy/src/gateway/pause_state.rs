use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::error::GatewayError;
use crate::models::served_models::ServedModels;

/// Lets the gateway's calls in, unless it is paused, and counts those under way.
#[derive(Clone, Default)]
pub(crate) struct PauseState {
    state: Arc<Mutex<GatewayState>>,
}

/// The reply of `GET /proxy/state`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GatewayState {
    pub(super) paused: bool,
    pub(super) retry_after_seconds: u64,
    pub(super) reason: Option<String>,
    inflight: u64,
}

/// Seconds after which a paused client is to retry, by default.
pub(super) const RETRY_AFTER_SECONDS: u64 = 5;

impl Default for GatewayState {
    fn default() -> Self {
        Self { paused: false, retry_after_seconds: RETRY_AFTER_SECONDS, reason: None, inflight: 0 }
    }
}

impl PauseState {
    pub(super) fn state(&self) -> MutexGuard<'_, GatewayState> {
        // The state is whole after every statement, so a poisoned lock holds nothing broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way; it is over when this is dropped.
pub(crate) struct InFlight {
    gateway: PauseState,
}

impl InFlight {
    /// Counts a call in, or fails while the gateway is paused.
    pub(crate) fn enter(gateway: &PauseState) -> Result<Self, GatewayError> {
        let mut state = gateway.state();
        let GatewayState { paused, retry_after_seconds, .. } = *state;
        if paused {
            return Err(GatewayError::Paused { retry_after_seconds, reason: state.reason.clone() });
        }
        state.inflight += 1;
        Ok(Self { gateway: gateway.clone() })
    }
}

/// Refuses calls to a model that is paused by itself.
pub(super) fn check_open(models: &ServedModels, model: &str) -> Result<(), GatewayError> {
    let gate = models.gate(model)?.state();
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
        self.gateway.state().inflight -= 1;
    }
}
