use std::sync::Arc;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fulgurite_backends::BackendError;
use fulgurite_renderers::RenderError;
use fulgurite_store::{KeyRefused, Refused, StoreError};
use serde_json::{Value, json};

use crate::error::ProxyError;
use crate::models::template_arguments::TEMPLATE_ARGUMENTS;

/// How OpenAI's clients are told: status, `type`, `param` and `code` beside the message.
struct Shape {
    status: StatusCode,
    kind: &'static str,
    parameter: Option<String>,
    code: Option<&'static str>,
}

impl Shape {
    fn new(status: StatusCode, kind: &'static str, code: Option<&'static str>) -> Self {
        Self { status, kind, parameter: None, code }
    }

    fn about(mut self, parameter: &str) -> Self {
        self.parameter = Some(parameter.to_owned());
        self
    }
}

const INVALID: &str = "invalid_request_error";
const SERVER: &str = "server_error";

fn shape(error: &ProxyError) -> Shape {
    match error {
        ProxyError::InvalidRequest { parameter, code, .. } => {
            Shape { status: StatusCode::BAD_REQUEST, kind: INVALID, parameter: parameter.clone(), code: *code }
        }
        ProxyError::BudgetSpent { .. } => Shape::new(StatusCode::BAD_REQUEST, INVALID, Some("budget_exceeded")),
        ProxyError::PromptTooLong { parameter, .. } | ProxyError::TokensSpent { parameter, .. } => {
            Shape::new(StatusCode::BAD_REQUEST, INVALID, Some("context_length_exceeded")).about(parameter)
        }
        ProxyError::BodyOverContext { .. } => {
            Shape::new(StatusCode::BAD_REQUEST, INVALID, Some("context_length_exceeded"))
        }
        ProxyError::TooManyLarge(_) => {
            Shape::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", Some("rate_limit_exceeded"))
        }
        ProxyError::BodyTooLarge { .. } => {
            Shape::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, Some("request_too_large"))
        }
        ProxyError::UnknownModel { .. } => {
            Shape::new(StatusCode::NOT_FOUND, INVALID, Some("model_not_found")).about("model")
        }
        ProxyError::UnknownTarget { kind, .. } => Shape::new(
            StatusCode::NOT_FOUND,
            INVALID,
            Some(match *kind {
                "rollout" => "rollout_not_found",
                "response" => "response_not_found",
                _ => "attempt_not_found",
            }),
        ),
        ProxyError::AttemptEnded { .. } => Shape::new(StatusCode::GONE, INVALID, Some("attempt_ended")),
        ProxyError::UnknownRoute { .. } => Shape::new(StatusCode::NOT_FOUND, INVALID, Some("unknown_url")),
        ProxyError::MethodNotAllowed { .. } => {
            Shape::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, Some("method_not_allowed"))
        }
        ProxyError::Refused(refused) => {
            let (kind, code) = match refused {
                Refused::Key(KeyRefused::Unknown | KeyRefused::Expired { .. }) => (INVALID, "invalid_api_key"),
                Refused::Key(KeyRefused::OtherRollout { .. } | KeyRefused::AdminOnly { .. }) => {
                    (INVALID, "insufficient_permissions")
                }
                Refused::ForeignHost { .. } => (INVALID, "foreign_host"),
                Refused::ForeignOrigin { .. } => (INVALID, "foreign_origin"),
                Refused::ShuttingDown => (SERVER, "shutting_down"),
                Refused::PathNotText { .. } => (INVALID, "path_not_text"),
                Refused::BodyTooLarge { .. } => (INVALID, "request_too_large"),
            };
            Shape::new(refused.status(), kind, Some(code))
        }
        ProxyError::BodyTooSlow(_) => Shape::new(StatusCode::REQUEST_TIMEOUT, INVALID, Some("request_timeout")),
        ProxyError::SamplerTimeout { .. } => Shape::new(StatusCode::GATEWAY_TIMEOUT, SERVER, Some("sampler_timeout")),
        ProxyError::Render { error, parameter } => match error {
            RenderError::File { .. }
            | RenderError::Tokenizer { .. }
            | RenderError::MissingToken { .. }
            | RenderError::UnknownRenderer { .. }
            | RenderError::UnsupportedRenderer { .. }
            | RenderError::NoTemplate { .. } => Shape::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER, None),
            RenderError::ArgumentsUnsupported { .. } => {
                Shape::new(StatusCode::BAD_REQUEST, INVALID, None).about(TEMPLATE_ARGUMENTS)
            }
            RenderError::ToolsUnsupported { .. } => Shape::new(StatusCode::BAD_REQUEST, INVALID, None).about("tools"),
            RenderError::Tool { tool_index, .. } => {
                Shape::new(StatusCode::BAD_REQUEST, INVALID, None).about(&format!("tools[{tool_index}]"))
            }
            _ => Shape::new(StatusCode::BAD_REQUEST, INVALID, None).about(parameter),
        },
        ProxyError::Backend(error) => match error {
            BackendError::InvalidRequest { .. } => Shape::new(StatusCode::BAD_REQUEST, INVALID, None),
            BackendError::PromptTooLong { .. } => {
                Shape::new(StatusCode::BAD_REQUEST, INVALID, Some("context_length_exceeded"))
            }
            BackendError::Overloaded { .. } => Shape::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, Some("overloaded")),
            BackendError::Unavailable { .. } => {
                Shape::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, Some("backend_unavailable"))
            }
            BackendError::BrokenAnswer { .. } => Shape::new(StatusCode::BAD_GATEWAY, SERVER, Some("backend_failed")),
            BackendError::Files { .. }
            | BackendError::Damaged(_)
            | BackendError::Configuration { .. }
            | BackendError::Internal { .. } => Shape::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER, None),
        },
        ProxyError::Store(StoreError::NotFound { .. }) => Shape::new(StatusCode::NOT_FOUND, INVALID, None),
        ProxyError::Store(_) => Shape::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, Some("record_failed")),
    }
}

/// The status of a response that tells of an error.
pub(crate) fn status(error: &ProxyError) -> StatusCode {
    shape(error).status
}

/// What a person is told. Agents, and gateways before them, look for OpenAI's own words for a long prompt.
pub(crate) fn message(error: &ProxyError) -> String {
    match error {
        ProxyError::PromptTooLong { prompt_tokens, context_length, .. }
        | ProxyError::Backend(BackendError::PromptTooLong { prompt_tokens, context_length }) => {
            too_long(*prompt_tokens, *context_length)
        }
        ProxyError::TokensSpent { prompt_tokens, maximum, tokens, .. } => {
            let words = too_long(*prompt_tokens, *maximum);
            format!("{words} No more is left of the attempt's budget of {tokens} tokens.")
        }
        ProxyError::BodyOverContext { bytes, limit, context_length } => format!(
            "This model's maximum context length is {context_length} tokens. However, your request has {bytes} bytes, \
             and no prompt of so many tokens takes more than {limit}. Please reduce the length of the messages."
        ),
        other => other.to_string(),
    }
}

fn too_long(prompt_tokens: usize, maximum: usize) -> String {
    format!(
        "This model's maximum context length is {maximum} tokens. However, your messages resulted in {prompt_tokens} \
         tokens. Please reduce the length of the messages."
    )
}

/// The error as OpenAI's JSON.
pub(crate) fn body(error: &ProxyError) -> Value {
    let Shape { kind, parameter, code, .. } = shape(error);
    json!({ "error": { "message": message(error), "type": kind, "param": parameter, "code": code } })
}

/// Why a call failed, for OpenAI's clients.
#[derive(Debug)]
pub(crate) struct OpenAiError(Arc<ProxyError>);

impl From<ProxyError> for OpenAiError {
    fn from(error: ProxyError) -> Self {
        Self(Arc::new(error))
    }
}

impl From<Arc<ProxyError>> for OpenAiError {
    fn from(error: Arc<ProxyError>) -> Self {
        Self(error)
    }
}

impl IntoResponse for OpenAiError {
    fn into_response(self) -> Response {
        let status = shape(&self.0).status;
        if status.is_server_error() {
            tracing::error!(error = %self.0, "model call failed");
        }
        let mut response = (status, axum::Json(body(&self.0))).into_response();
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
