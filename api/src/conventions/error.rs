//! Why a request is refused, in the words of all our JSON routes: `{"detail": TEXT}`, or a list of every mistake.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fulgurite_store::StoreError;
use serde_json::{Value, json};

use super::refused::{BodyTooSlow, Refused};
use super::turns::TurnsFull;

/// What is said of a body that is too large.
pub const TOO_LARGE: &str = "The request body is too large";

/// Why a request was refused. Nothing has been stored.
#[derive(Debug)]
pub enum RestError {
    /// 400: a parameter has a value that it cannot have.
    BadRequest(String),
    /// 404: there is no such thing.
    NotFound(String),
    /// 413: the body is too large.
    TooLarge,
    /// 401, 403 or 503: it is not let in.
    Refused(Refused),
    /// 429: too many large bodies wait.
    Crowded(TurnsFull),
    /// 408: the body did not arrive in time.
    TooSlow(BodyTooSlow),
    /// 405: the path is there, but not with this method.
    MethodNotAllowed,
    /// 422: a body or the parameters are not what they should be.
    Schema {
        /// Which: `body` or `query`.
        source: &'static str,
        /// Every mistake.
        mistakes: Vec<Mistake>,
    },
    /// The store could not do it.
    Store(StoreError),
}

/// Where a body or parameters are not what they should be.
#[derive(Debug, PartialEq)]
pub struct Mistake {
    /// What kind of mistake it is.
    pub kind: &'static str,
    /// Where: keys and indices.
    pub location: Vec<Value>,
    /// What is wrong.
    pub message: String,
    /// What stands there.
    pub input: Value,
    /// What the message is made of.
    pub context: Option<Value>,
}

impl Mistake {
    /// A mistake of the whole.
    pub fn new(kind: &'static str, message: impl Into<String>, input: Value) -> Self {
        Self { kind, location: Vec::new(), message: message.into(), input, context: None }
    }

    /// A value that is of the right type and still makes no sense.
    pub fn value(location: Vec<Value>, message: impl Into<String>, input: Value) -> Self {
        Self { location, ..Self::new("value_error", message, input) }
    }

    fn into_json(self, source: &str) -> Value {
        let location: Vec<Value> = std::iter::once(json!(source)).chain(self.location).collect();
        let mut mistake = json!({"type": self.kind, "loc": location, "msg": self.message, "input": self.input});
        if let Some(context) = self.context {
            mistake["ctx"] = context;
        }
        mistake
    }
}

impl From<Mistake> for RestError {
    /// A mistake in a body.
    fn from(mistake: Mistake) -> Self {
        Self::Schema { source: "body", mistakes: vec![mistake] }
    }
}

impl From<TurnsFull> for RestError {
    fn from(full: TurnsFull) -> Self {
        Self::Crowded(full)
    }
}

impl From<StoreError> for RestError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid { field, message } if matches!(&*field, "sort_by" | "limit" | "offset") => {
                Self::BadRequest(message)
            }
            StoreError::Invalid { field, message } => {
                Self::from(Mistake::value(field.split('.').map(Value::from).collect(), message, Value::Null))
            }
            StoreError::NotFound { .. } => Self::NotFound(error.to_string()),
            error => Self::Store(error),
        }
    }
}

impl RestError {
    /// The status, and what is wrong: a text, or a list of mistakes.
    fn status_and_detail(self) -> (StatusCode, Value) {
        match self {
            Self::BadRequest(message) => (StatusCode::BAD_REQUEST, json!(message)),
            Self::NotFound(message) => (StatusCode::NOT_FOUND, json!(message)),
            Self::Refused(refused) => (refused.status(), json!(refused.to_string())),
            Self::TooSlow(slow) => (StatusCode::REQUEST_TIMEOUT, json!(slow.to_string())),
            Self::Crowded(full) => (StatusCode::TOO_MANY_REQUESTS, json!(full.to_string())),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, json!(TOO_LARGE)),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, json!("Method Not Allowed")),
            Self::Schema { source, mistakes } => {
                let mistakes = mistakes.into_iter().map(|mistake| mistake.into_json(source)).collect();
                (StatusCode::UNPROCESSABLE_ENTITY, mistakes)
            }
            Self::Store(error) => store_failure(&error),
        }
    }

    /// The same for a dialect in which all that can be said is a text.
    pub fn status_and_message(self) -> (StatusCode, String) {
        let (status, detail) = self.status_and_detail();
        (status, detail.as_str().map_or_else(|| detail.to_string(), str::to_owned))
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let (status, detail) = self.status_and_detail();
        (status, Json(json!({"detail": detail}))).into_response()
    }
}

fn store_failure(error: &StoreError) -> (StatusCode, Value) {
    let status = match error {
        StoreError::RewardRefused(_) => StatusCode::FORBIDDEN,
        StoreError::Conflict { .. }
        | StoreError::WeightsInPlace { .. }
        | StoreError::OtherFiles { .. }
        | StoreError::IllegalTransition { .. }
        | StoreError::InUse { .. }
        | StoreError::AmbiguousSession { .. }
        | StoreError::OtherRewardName { .. }
        | StoreError::KeyReused => StatusCode::CONFLICT,
        StoreError::Busy { .. } | StoreError::Unavailable { .. } | StoreError::Closed | StoreError::ReadOnly => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        StoreError::Full { .. } => StatusCode::INSUFFICIENT_STORAGE,
        // What a database says is for the log, not for whoever sends requests.
        error => {
            tracing::error!(%error, "a request to the store failed");
            return (StatusCode::INTERNAL_SERVER_ERROR, json!("Internal server error"));
        }
    };
    (status, json!(error.to_string()))
}
