use std::borrow::Cow;
use std::fmt::Display;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fulgurite_types::{AttemptNote, EpisodeStop};
use serde_json::Value;

/// The code of errors about a prompt that does not fit.
pub(super) const CONTEXT_LENGTH_EXCEEDED: &str = "context_length_exceeded";

/// The dialect whose messages and statuses an error uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Anthropic,
    Google,
}

/// An error as a dialect writes it down.
#[derive(Debug)]
pub(crate) struct WireError {
    pub(crate) status: StatusCode,
    /// `type`, or Google's `status`.
    pub(crate) kind: &'static str,
    /// The message.
    pub(crate) message: String,
    /// The request's field at fault.
    pub(crate) parameter: Option<String>,
    /// A short name for programs.
    pub(crate) code: Option<&'static str>,
}

/// An error's definition beside its message.
#[derive(Debug)]
pub(super) struct ErrorDetails<'e> {
    status: StatusCode,
    /// Where Anthropic has a status of its own.
    anthropic_status: Option<u16>,
    code: Option<&'static str>,
    parameter: Option<Cow<'e, str>>,
    /// Words that a dialect's clients look for.
    words: Option<DialectWords>,
}

/// Messages per dialect where clients look for a certain text.
#[derive(Debug)]
pub(super) struct DialectWords {
    pub(super) openai: String,
    pub(super) anthropic: String,
    pub(super) google: String,
}

impl<'e> ErrorDetails<'e> {
    pub(super) fn new(status: StatusCode, code: impl Into<Option<&'static str>>) -> Self {
        Self { status, anthropic_status: None, code: code.into(), parameter: None, words: None }
    }

    /// The request's field at fault.
    pub(super) fn about(self, parameter: impl Into<Cow<'e, str>>) -> Self {
        Self { parameter: Some(parameter.into()), ..self }
    }

    pub(super) fn anthropic_status(self, status: u16) -> Self {
        Self { anthropic_status: Some(status), ..self }
    }

    pub(super) fn words(self, words: DialectWords) -> Self {
        Self { words: Some(words), ..self }
    }

    /// What is to be noted of an attempt: that its context was full, or that this server or the model's host failed it.
    pub(super) fn note(&self) -> Option<AttemptNote> {
        match self.code {
            Some(CONTEXT_LENGTH_EXCEEDED) => Some(AttemptNote::Stop(EpisodeStop::ContextOverflow)),
            code if self.status.is_server_error() => Some(AttemptNote::HostError(code.unwrap_or("internal"))),
            _ => None,
        }
    }

    /// The error as a dialect writes it down.
    pub(super) fn in_dialect(self, dialect: Dialect, error: &impl Display) -> WireError {
        let Self { status, anthropic_status, code, parameter, words } = self;
        let own = anthropic_status.filter(|_| dialect == Dialect::Anthropic);
        let status = own.and_then(|own| StatusCode::from_u16(own).ok()).unwrap_or(status);
        let message = match (words, dialect) {
            (Some(words), Dialect::OpenAi) => words.openai,
            (Some(words), Dialect::Anthropic) => words.anthropic,
            (Some(words), Dialect::Google) => words.google,
            (None, _) => error.to_string(),
        };
        WireError { status, kind: kind(status, dialect), message, parameter: parameter.map(Cow::into_owned), code }
    }
}

/// `type` of an error with this status, or the name that Google has for the status.
fn kind(status: StatusCode, dialect: Dialect) -> &'static str {
    const INVALID: &str = "invalid_request_error";
    const SERVER: &str = "server_error";
    let (openai, anthropic, google) = match status.as_u16() {
        401 => (INVALID, "authentication_error", "UNAUTHENTICATED"),
        403 => (INVALID, "permission_error", "PERMISSION_DENIED"),
        404 => (INVALID, "not_found_error", "NOT_FOUND"),
        405 => (INVALID, INVALID, "UNIMPLEMENTED"),
        410 => (INVALID, INVALID, "FAILED_PRECONDITION"),
        413 => (INVALID, "request_too_large", "INVALID_ARGUMENT"),
        429 => ("rate_limit_error", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        502 | 503 => (SERVER, "api_error", "UNAVAILABLE"),
        408 => (INVALID, INVALID, "DEADLINE_EXCEEDED"),
        504 => (SERVER, "timeout_error", "DEADLINE_EXCEEDED"),
        529 => (SERVER, "overloaded_error", "UNAVAILABLE"),
        500.. => (SERVER, "api_error", "INTERNAL"),
        _ => (INVALID, INVALID, "INVALID_ARGUMENT"),
    };
    match dialect {
        Dialect::OpenAi => openai,
        Dialect::Anthropic => anthropic,
        Dialect::Google => google,
    }
}

/// The response for an error, in its dialect's JSON. Server errors are logged.
pub(crate) fn response(error: &impl Display, status: StatusCode, body: Value) -> Response {
    if status.is_server_error() {
        tracing::error!(%error, "model call failed");
    }
    let mut response = (status, axum::Json(body)).into_response();
    // Who comes again soon may be answered.
    if matches!(status.as_u16(), 429 | 503 | 529) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}
