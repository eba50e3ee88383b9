use crate::wire::{ErrorCategory, RequestFailed};
use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fulgurite_backends::{BackendError, Notation, plain_words};
use serde_json::json;

/// Why a request is not taken, as its answer says it. Clients try again for minutes what is answered by 409 or 5xx, so
/// what cannot succeed as it stands is 400, 404 or 422.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
}

impl Refusal {
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, detail: detail.into() }
    }

    /// A body that is not what the path takes.
    pub(crate) fn unreadable(error: impl std::fmt::Display) -> Self {
        Self::unreadable_at("", error)
    }

    /// As [`Refusal::unreadable`], if it is known at which path in the body.
    pub(crate) fn unreadable_at(place: &str, error: impl std::fmt::Display) -> Self {
        let words = plain_words(&error.to_string(), place, Notation::Json);
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, detail: format!("the request cannot be read: {words}") }
    }

    /// A request whose place was used for another.
    pub(crate) fn is_in_use(request_id: &str) -> Self {
        let detail = format!("`{request_id}` asked for something else before: every request needs a seq_id of its own");
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, detail }
    }

    pub(crate) fn not_found(what: &str, id: &str) -> Self {
        Self { status: StatusCode::NOT_FOUND, detail: format!("there is no {what} `{id}`") }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "detail": self.detail }))).into_response()
    }
}

impl From<BackendError> for Refusal {
    fn from(error: BackendError) -> Self {
        let status = match &error {
            BackendError::InvalidRequest { .. } | BackendError::PromptTooLong { .. } => StatusCode::BAD_REQUEST,
            // Clients would try again after a 5xx, and damaged files stay damaged.
            BackendError::Damaged(_) => StatusCode::BAD_REQUEST,
            // Clients send fewer requests at a time after it.
            BackendError::Overloaded { .. } => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self { status, detail: error.to_string() }
    }
}

/// The result of a request that was taken and cannot be carried out as it stands.
pub(crate) fn users_fault(error: impl Into<String>) -> RequestFailed {
    RequestFailed { error: error.into(), category: ErrorCategory::User }
}

/// The result of a request that was taken and went wrong here.
pub(crate) fn servers_fault(error: impl Into<String>) -> RequestFailed {
    RequestFailed { error: error.into(), category: ErrorCategory::Server }
}

/// The result that an error of the engine is.
pub(crate) fn failure(error: BackendError) -> RequestFailed {
    match error {
        BackendError::InvalidRequest { .. } | BackendError::PromptTooLong { .. } => users_fault(error.to_string()),
        error => servers_fault(error.to_string()),
    }
}
