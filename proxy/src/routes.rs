use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde_json::json;

use crate::Proxy;
use crate::error::ProxyError;
use crate::openai::{chat, error, list_models};

/// Every route of the proxy: the model calls, plain and below `/rollout/{rollout_id}/attempt/{attempt_id}`, with and
/// without `/v1` there, and `/healthz`.
pub fn routes(proxy: Proxy) -> Router {
    const ATTEMPT: &str = "/rollout/{rollout_id}/attempt/{attempt_id}";
    let mut router = Router::new().route("/healthz", get(healthz));
    for version in [String::from("/v1"), format!("{ATTEMPT}/v1"), ATTEMPT.to_owned()] {
        let complete = if version == "/v1" { post(chat::complete) } else { post(chat::complete_in_attempt) };
        router = router
            .route(&format!("{version}/chat/completions"), complete.fallback(method_not_allowed))
            .route(&format!("{version}/models"), get(list_models).fallback(method_not_allowed));
    }
    router.with_state(proxy)
}

/// Answers whatever no other route does, in OpenAI's shape.
pub async fn unknown_route(request: Request) -> Response {
    error::unknown_route(request.method(), request.uri().path()).into_response()
}

async fn method_not_allowed(request: Request) -> ProxyError {
    ProxyError::MethodNotAllowed { method: request.method().to_string() }
}

async fn healthz(State(proxy): State<Proxy>) -> Response {
    let models: Vec<&String> = proxy.shared.models.keys().collect();
    axum::Json(json!({ "status": "ok", "models": models })).into_response()
}
