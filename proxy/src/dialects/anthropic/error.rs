use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fulgurite_backends::BackendError;
use serde_json::{Value, json};

use crate::dialects::openai;
use crate::error::ProxyError;

const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");

/// What a response is known by, in its header and in an error's body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RequestId(String);

impl RequestId {
    pub(crate) fn new() -> Self {
        Self(format!("req_{}", uuid::Uuid::now_v7().simple()))
    }

    /// The response with its id, unless it has one from whoever answered.
    pub(crate) fn on(&self, mut response: Response) -> Response {
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            response.headers_mut().entry(REQUEST_ID).or_insert(value);
        }
        response
    }
}

/// The statuses are OpenAI's but for one that only Anthropic has.
fn status(error: &ProxyError) -> StatusCode {
    match error {
        ProxyError::Backend(BackendError::Overloaded { .. }) => {
            StatusCode::from_u16(529).unwrap_or(StatusCode::SERVICE_UNAVAILABLE)
        }
        other => openai::error::status(other),
    }
}

/// `error.type` of a status.
fn kind(status: StatusCode) -> &'static str {
    match status.as_u16() {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// What a person is told. Agents shorten their conversation where they find Anthropic's own words for a long one.
fn message(error: &ProxyError) -> String {
    match error {
        ProxyError::PromptTooLong { prompt_tokens, context_length, .. }
        | ProxyError::Backend(BackendError::PromptTooLong { prompt_tokens, context_length }) => {
            // An answer needs room for a token.
            let maximum = context_length.saturating_sub(1);
            too_long(*prompt_tokens, maximum)
        }
        ProxyError::TokensSpent { prompt_tokens, maximum, .. } => too_long(*prompt_tokens, *maximum),
        ProxyError::BodyOverContext { bytes, limit, context_length } => {
            format!("prompt is too long: a request of {bytes} bytes, and {context_length} tokens take at most {limit}")
        }
        other => other.to_string(),
    }
}

fn too_long(prompt_tokens: usize, maximum: usize) -> String {
    format!("prompt is too long: {prompt_tokens} tokens > {maximum} maximum")
}

/// The error as Anthropic's JSON.
pub(super) fn body(error: &ProxyError, request_id: &RequestId) -> Value {
    let error = json!({ "type": kind(status(error)), "message": message(error) });
    json!({ "type": "error", "error": error, "request_id": request_id.0 })
}

/// The event that breaks a stream of somebody else off.
pub(crate) fn error_event(error: &ProxyError) -> Value {
    body(error, &RequestId::new())
}

/// The response to a call that failed.
pub(super) fn response(error: &ProxyError, request_id: &RequestId) -> Response {
    let status = status(error);
    if status.is_server_error() {
        tracing::error!(%error, "model call failed");
    }
    let mut response = (status, axum::Json(body(error, request_id))).into_response();
    if matches!(status.as_u16(), 429 | 503 | 529) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    request_id.on(response)
}

/// The response to what never became a call.
pub(crate) fn refusal(error: &ProxyError) -> Response {
    response(error, &RequestId::new())
}

#[cfg(test)]
mod tests {
    use fulgurite_store::{BodyTooSlow, KeyRefused, Refused};

    use super::*;

    fn told(error: ProxyError) -> (u16, Value) {
        let id = RequestId("req_1".to_owned());
        (status(&error).as_u16(), body(&error, &id))
    }

    #[test]
    fn every_error_has_anthropics_shape_status_and_type() {
        for (error, status, kind) in [
            (ProxyError::invalid("top_p", "no"), 400, "invalid_request_error"),
            (ProxyError::BudgetSpent { of: "3 model calls".into() }, 400, "invalid_request_error"),
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
            assert_eq!(told(error), (status, expected));
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
            let (status, body) = told(error);
            assert_eq!((status, &body["error"]["type"]), (400, &json!("invalid_request_error")));
            assert_eq!(body["error"]["message"], "prompt is too long: 64 tokens > 63 maximum");
        }
    }
}
