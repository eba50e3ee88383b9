use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

/// Lets the gateway's calls in, unless it is paused, and counts those under way.
#[derive(Clone, Default)]
pub(crate) struct PauseState {
    state: Arc<Mutex<GatewayState>>,
}

/// The reply of `GET /proxy/state`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct GatewayState {
    pub(crate) paused: bool,
    pub(crate) retry_after_seconds: u64,
    pub(crate) reason: Option<String>,
    inflight: u64,
}

/// Seconds after which a paused client is to retry, by default.
pub(crate) const RETRY_AFTER_SECONDS: u64 = 5;

impl Default for GatewayState {
    fn default() -> Self {
        Self { paused: false, retry_after_seconds: RETRY_AFTER_SECONDS, reason: None, inflight: 0 }
    }
}

impl PauseState {
    pub(crate) fn state(&self) -> MutexGuard<'_, GatewayState> {
        // The state is whole after every statement, so a poisoned lock holds nothing broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a call is not let in.
#[derive(Debug)]
pub(crate) struct GatewayPaused {
    pub(crate) retry_after_seconds: u64,
    pub(crate) reason: Option<String>,
}

/// A call under way; it is over when this is dropped.
pub(crate) struct InFlight {
    gateway: PauseState,
}

impl InFlight {
    /// Counts a call in, or fails while the gateway is paused.
    pub(crate) fn enter(gateway: &PauseState) -> Result<Self, GatewayPaused> {
        let mut state = gateway.state();
        let GatewayState { paused, retry_after_seconds, .. } = *state;
        if paused {
            return Err(GatewayPaused { retry_after_seconds, reason: state.reason.clone() });
        }
        state.inflight += 1;
        Ok(Self { gateway: gateway.clone() })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gateway.state().inflight -= 1;
    }
}
