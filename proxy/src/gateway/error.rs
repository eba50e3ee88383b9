use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::dialects::openai::error::OpenAiError;
use crate::error::ProxyError;
use crate::models::pause_state::GatewayPaused;
use crate::models::registered_models::UnusableServer;

/// Why the gateway refuses a request, as its clients get it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GatewayError {
    #[error("Unsupported proxy mode: {0}")]
    UnknownMode(String),
    #[error("Unsupported upstream path: {endpoint}{}", .base_url.as_ref().map_or(String::new(), |url| format!("; set the client's base URL to {url}")))]
    UnknownEndpoint { endpoint: String, base_url: Option<String> },
    #[error("Rollout not found: {0}")]
    UnknownRollout(String),
    #[error("gateway paused")]
    Paused { retry_after_seconds: u64, reason: Option<String> },
    /// Nothing answers for a model.
    #[error("{0}")]
    NoServer(String),
    /// A body that does not have the shape it should.
    #[error("{message}")]
    Unprocessable { place: Vec<Value>, message: String },
    /// The call itself failed, and its error is the model server's.
    #[error("{0}")]
    Call(Arc<ProxyError>),
}

impl From<ProxyError> for GatewayError {
    fn from(error: ProxyError) -> Self {
        GatewayError::Call(Arc::new(error))
    }
}

impl From<GatewayPaused> for GatewayError {
    fn from(GatewayPaused { retry_after_seconds, reason }: GatewayPaused) -> Self {
        GatewayError::Paused { retry_after_seconds, reason }
    }
}

impl From<UnusableServer> for GatewayError {
    fn from(UnusableServer { index, error }: UnusableServer) -> Self {
        let place = vec![json!("body"), json!(index), json!("endpoint")];
        GatewayError::Unprocessable { place, message: error.to_string() }
    }
}

impl From<Arc<ProxyError>> for GatewayError {
    fn from(error: Arc<ProxyError>) -> Self {
        GatewayError::Call(error)
    }
}

/// Answers a known path with the wrong method.
pub(crate) async fn method_not_allowed() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, Json(json!({ "detail": "Method Not Allowed" }))).into_response()
}

/// Distinguishes a paused gateway from an overloaded model server.
const PAUSED: HeaderName = HeaderName::from_static("x-agl-paused");

impl IntoResponse for GatewayError {
    fn into_response(self) -> Response {
        let detail = |status: StatusCode, detail: Value| (status, Json(json!({ "detail": detail }))).into_response();
        let text = json!(self.to_string());
        match self {
            GatewayError::UnknownMode(_) | GatewayError::UnknownEndpoint { .. } | GatewayError::UnknownRollout(_) => {
                detail(StatusCode::NOT_FOUND, text)
            }
            GatewayError::NoServer(_) => detail(StatusCode::SERVICE_UNAVAILABLE, text),
            GatewayError::Unprocessable { place, message } => {
                let mistake = json!({ "type": "value_error", "loc": place, "msg": message });
                detail(StatusCode::UNPROCESSABLE_ENTITY, json!([mistake]))
            }
            GatewayError::Paused { retry_after_seconds, reason } => {
                let body = Json(json!({ "error": text, "reason": reason }));
                let mut response = (StatusCode::TOO_MANY_REQUESTS, body).into_response();
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after_seconds));
                response.headers_mut().insert(PAUSED, HeaderValue::from_static("true"));
                response
            }
            GatewayError::Call(error) => match &*error {
                ProxyError::UnknownTarget { kind: "rollout", id } => {
                    GatewayError::UnknownRollout(id.clone()).into_response()
                }
                ProxyError::InvalidRequest { code: Some("invalid_json"), .. } => {
                    detail(StatusCode::BAD_REQUEST, json!(error.to_string()))
                }
                _ => OpenAiError::from(error).into_response(),
            },
        }
    }
}
