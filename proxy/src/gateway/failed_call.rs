//! The event that a failed call of the gateway leaves: its status, and its request whole.
//!
//! A call that is answered needs none: its event is made of its generation. What failed may have no generation, or one
//! with a part of an answer that its client never got.

use std::time::Instant;

use axum::body::{Body, to_bytes};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use fulgurite_store::{
    EVENT_DATA, EVENT_REQUEST_DIGEST, EVENT_SPAN, EVENT_TYPE, NewInstantSpan, Sender, Store, StoreError,
};
use fulgurite_types::{AttemptRef, Object, exact_json};
use serde_json::{Map, Value, json};

use super::error::GatewayError;
use crate::requests::request_body::{digest, parse};

/// A call as far as its event needs it, should it fail.
pub(super) struct PendingCall {
    pub(super) rollout_id: String,
    pub(super) attempt_id: String,
    pub(super) model: String,
    /// The body, with the values that the gateway put in the place of the agent's.
    pub(super) request: Bytes,
    pub(super) started: Instant,
}

impl PendingCall {
    /// The response of a call that has ended so. One that failed has left its event before it is returned.
    pub(super) async fn ended(self, store: &Store, result: Result<Response, GatewayError>) -> Response {
        let response = result.into_response();
        if !response.status().is_client_error() && !response.status().is_server_error() {
            return response;
        }
        let (parts, body) = response.into_parts();
        // An error's body is in memory already: it is short, or the upstream's, which was read whole.
        let body = match to_bytes(body, usize::MAX).await {
            Ok(body) => body,
            Err(error) => {
                tracing::debug!(%error, "the answer of a failed call broke off");
                Bytes::new()
            }
        };
        if let Err(error) = self.record(store, parts.status.as_u16(), &body).await {
            tracing::warn!(%error, "the event of a failed call is not recorded");
        }
        Response::from_parts(parts, Body::from(body))
    }

    async fn record(self, store: &Store, http_status: u16, response: &[u8]) -> Result<(), StoreError> {
        let attempt = store.attempts().get(&self.rollout_id, AttemptRef::Id(self.attempt_id.clone())).await?;
        // A refused call begins no attempt, and is no part of one that has ended.
        if attempt.is_none_or(|attempt| attempt.status.is_ended()) {
            return Ok(());
        }
        let request: Map<String, Value> = parse(&self.request).unwrap_or_default();
        let digest = digest(&request);
        let data = json!({
            "model": self.model,
            "model_version": null,
            "request": request,
            "server": {"model": self.model, "endpoint": null, "version": null},
            "latency_ms": self.started.elapsed().as_secs_f64() * 1000.0,
            "http_status": http_status,
            "status": "error",
            "retry_count": 0,
            "usage": null,
            "finish_reason": null,
            "response": serde_json::from_slice(response).unwrap_or_else(|_| json!({})),
        });
        let attributes = [
            (EVENT_TYPE, json!("model_request")),
            (EVENT_REQUEST_DIGEST, json!(digest)),
            // As text, because the attributes of a span hold nothing deeper than lists.
            (EVENT_DATA, json!(exact_json(&data))),
        ];
        let attributes: Object = attributes.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let event =
            NewInstantSpan { rollout_id: self.rollout_id, attempt_id: self.attempt_id, name: EVENT_SPAN, attributes };
        store.spans().add_instant(&Sender::Server, event).await?;
        Ok(())
    }
}
