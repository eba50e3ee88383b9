use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::error::ProxyError;
use crate::error::wire_error::{self, Dialect, WireError};

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// What a response is known by, in its header and in an error's body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestId(String);

impl RequestId {
    pub(crate) fn of(id: Uuid) -> Self {
        Self(format!("req_{}", id.simple()))
    }

    /// The response with its request id, unless it has one from an upstream.
    pub(crate) fn on(&self, mut response: Response) -> Response {
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            response.headers_mut().entry(REQUEST_ID).or_insert(value);
        }
        response
    }
}

/// The error as Anthropic's JSON.
pub(super) fn body(error: &ProxyError, request_id: &RequestId) -> Value {
    json_of(error.in_dialect(Dialect::Anthropic), request_id)
}

fn json_of(error: WireError, request_id: &RequestId) -> Value {
    let error = json!({ "type": error.kind, "message": error.message });
    json!({ "type": "error", "error": error, "request_id": request_id.0 })
}

/// The event that aborts an upstream's stream.
pub(crate) fn error_event(error: &ProxyError, request_id: &RequestId) -> Value {
    body(error, request_id)
}

/// The response to a call that failed, or to what never became one.
pub(crate) fn response(error: &ProxyError, request_id: &RequestId) -> Response {
    let written = error.in_dialect(Dialect::Anthropic);
    request_id.on(wire_error::response(error, written.status, json_of(written, request_id)))
}

#[cfg(test)]
mod tests {
    use fulgurite_api::{BodyTooSlow, Refused};
    use fulgurite_backends::BackendError;
    use fulgurite_store::KeyRefused;

    use super::*;

    fn written(error: ProxyError) -> (u16, Value) {
        let id = RequestId("req_1".to_owned());
        (error.in_dialect(Dialect::Anthropic).status.as_u16(), body(&error, &id))
    }

    #[test]
    fn every_error_has_anthropics_shape_status_and_type() {
        for (error, status, kind) in [
            (ProxyError::invalid("top_p", "no"), 400, "invalid_request_error"),
            (
                ProxyError::BudgetSpent { of: "3 model calls".into(), stop: fulgurite_types::EpisodeStop::MaxTurns },
                400,
                "invalid_request_error",
            ),
            (ProxyError::BodyTooLarge { limit: 1 }, 413, "request_too_large"),
            (ProxyError::UnknownModel { model: "m".into(), served: "none".into() }, 404, "not_found_error"),
            (ProxyError::UnknownTarget { kind: "rollout", id: "r".into() }, 404, "not_found_error"),
            (Refused::ShuttingDown.into(), 503, "api_error"),
            (BodyTooSlow { seconds: 1.0 }.into(), 408, "invalid_request_error"),
            (ProxyError::SamplerTimeout { awaited: "it", seconds: 1.0, key: "k" }, 504, "timeout_error"),
            (Refused::from(KeyRefused::Unknown).into(), 401, "authentication_error"),
            (Refused::from(KeyRefused::AdminOnly { of: "an agent" }).into(), 403, "permission_error"),
            (Refused::ForeignHost { host: "h".into() }.into(), 403, "permission_error"),
            (ProxyError::MethodNotAllowed { method: "PUT".into() }, 405, "invalid_request_error"),
            (BackendError::Overloaded { limit: 1 }.into(), 529, "overloaded_error"),
            (BackendError::Unavailable { message: "m".into() }.into(), 503, "api_error"),
            (BackendError::Internal { message: "m".into() }.into(), 500, "api_error"),
        ] {
            let words = error.to_string();
            let expected = json!({
                "type": "error",
                "error": { "type": kind, "message": words },
                "request_id": "req_1",
            });
            assert_eq!(written(error), (status, expected));
        }
    }

    #[test]
    fn a_long_prompt_is_told_in_the_words_that_agents_look_for() {
        let (prompt_tokens, context_length) = (64, 64);
        for error in [
            ProxyError::PromptTooLong { parameter: "messages", prompt_tokens, context_length },
            BackendError::PromptTooLong { prompt_tokens, context_length }.into(),
            ProxyError::TokensSpent { parameter: "messages", prompt_tokens, maximum: 63, tokens: 1000 },
        ] {
            let (status, body) = written(error);
            assert_eq!((status, &body["error"]["type"]), (400, &json!("invalid_request_error")));
            assert_eq!(body["error"]["message"], "prompt is too long: 64 tokens > 63 maximum");
        }
    }
}
