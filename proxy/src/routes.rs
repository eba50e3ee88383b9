use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, head, post};
use serde_json::json;

use crate::Proxy;
use crate::error::ProxyError;
use crate::gateway;
use crate::openai::endpoint::{chat_completions, completions};
use crate::openai::error::{self, OpenAiError};
use crate::openai::{list_models, responses};

const ATTEMPT: &str = "/rollout/{rollout_id}/attempt/{attempt_id}";

/// Every route of the proxy: the model calls, plain and below `/rollout/{rollout_id}/attempt/{attempt_id}`, with and
/// without `/v1` there, Agent-lightning's gateway, and `/healthz`. An attempt's path itself, and `HEAD /`, answer with nothing, because some
/// clients ask whether somebody is there.
pub fn routes(proxy: Proxy) -> Router {
    let mut router =
        Router::new().route("/healthz", get(healthz)).route("/", head(StatusCode::OK).fallback(unknown_route));
    for base in ["/v1", &format!("{ATTEMPT}/v1"), ATTEMPT] {
        router = router
            .route(&format!("{base}/chat/completions"), post(chat_completions).fallback(method_not_allowed))
            .route(&format!("{base}/completions"), post(completions).fallback(method_not_allowed))
            .route(&format!("{base}/responses"), post(responses::create).fallback(method_not_allowed))
            .route(&format!("{base}/responses/{{response_id}}"), get(responses::retrieve).fallback(method_not_allowed))
            .route(&format!("{base}/models"), get(list_models).fallback(method_not_allowed));
    }
    for prefix in [ATTEMPT, &format!("{ATTEMPT}/"), &format!("{ATTEMPT}/v1"), &format!("{ATTEMPT}/v1/")] {
        router = router.route(prefix, get(StatusCode::OK).fallback(method_not_allowed));
    }
    router.merge(gateway::routes()).with_state(proxy)
}

/// Answers whatever no other route does, in OpenAI's shape.
pub async fn unknown_route(request: Request) -> Response {
    error::unknown_route(request.method(), request.uri().path()).into_response()
}

async fn method_not_allowed(request: Request) -> OpenAiError {
    ProxyError::MethodNotAllowed { method: request.method().to_string() }.into()
}

async fn healthz(State(proxy): State<Proxy>) -> Response {
    let models: Vec<&String> = proxy.shared.models.keys().collect();
    axum::Json(json!({ "status": "ok", "models": models })).into_response()
}
