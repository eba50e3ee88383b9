use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::error::ProxyError;
use crate::error::wire_error::{Dialect, WireError, response};

/// The error as OpenAI's JSON.
pub(crate) fn body(error: &ProxyError) -> Value {
    json_of(error.in_dialect(Dialect::OpenAi))
}

fn json_of(error: WireError) -> Value {
    let WireError { kind, message, parameter, code, .. } = error;
    json!({ "error": { "message": message, "type": kind, "param": parameter, "code": code } })
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
        let written = self.0.in_dialect(Dialect::OpenAi);
        response(&self.0, written.status, json_of(written))
    }
}
