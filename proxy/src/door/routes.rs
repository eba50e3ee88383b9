use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, head, post};
use fulgurite_api::Refused;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::dialects::openai::endpoint::{chat_completions, completions, embeddings};
use crate::dialects::openai::error::OpenAiError;
use crate::dialects::openai::responses;
use crate::dialects::{anthropic, openai};
use crate::error::ProxyError;
use crate::gateway;
use crate::models::model_routes;
use crate::observe::metering::meter;
use crate::proxy::Proxy;

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
            .route(&format!("{base}/embeddings"), post(embeddings).fallback(method_not_allowed))
            .route(&format!("{base}/responses"), post(responses::create).fallback(method_not_allowed))
            .route(&format!("{base}/responses/{{response_id}}"), get(responses::retrieve).fallback(method_not_allowed))
            .route(&format!("{base}/messages"), post(anthropic::messages).fallback(method_not_allowed))
            .route(&format!("{base}/messages/count_tokens"), post(anthropic::count_tokens).fallback(method_not_allowed))
            .route(&format!("{base}/models"), get(list_models).fallback(method_not_allowed))
            .route(&format!("{base}/models/{{*model}}"), get(retrieve_model).fallback(method_not_allowed));
    }
    for prefix in [ATTEMPT, &format!("{ATTEMPT}/"), &format!("{ATTEMPT}/v1"), &format!("{ATTEMPT}/v1/")] {
        router = router.route(prefix, get(StatusCode::OK).fallback(method_not_allowed));
    }
    let metered = axum::middleware::from_fn_with_state(Arc::clone(&proxy.shared.telemetry), meter);
    router.merge(gateway::routes::routes()).merge(model_routes::routes()).layer(metered).with_state(proxy)
}

/// Answers whatever no other route does, in Anthropic's shape where the client speaks it, otherwise in OpenAI's.
pub async fn unknown_route(request: Request) -> Response {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    refusal(&request, ProxyError::UnknownRoute { method, path })
}

/// The answer to a request that is not let in, in the dialect that its client speaks.
pub fn refused(uri: &Uri, headers: &HeaderMap, refused: Refused) -> Response {
    told(uri, headers, refused.into())
}

async fn method_not_allowed(request: Request) -> Response {
    refusal(&request, ProxyError::MethodNotAllowed { method: request.method().to_string() })
}

fn refusal(request: &Request, error: ProxyError) -> Response {
    told(request.uri(), request.headers(), error)
}

fn told(uri: &Uri, headers: &HeaderMap, error: ProxyError) -> Response {
    match anthropic::is_spoken(uri, headers) {
        true => anthropic::refusal(&error),
        false => OpenAiError::from(error).into_response(),
    }
}

async fn list_models(State(proxy): State<Proxy>, uri: Uri, headers: HeaderMap) -> axum::Json<Value> {
    let (models, created) = (&proxy.shared.models, proxy.shared.started as u64);
    axum::Json(match anthropic::is_spoken(&uri, &headers) {
        true => anthropic::model_list(models).await,
        false => openai::model_list(models, created).await,
    })
}

/// The path of a model, which may be below an attempt's. A name may be several segments.
#[derive(Debug, Deserialize)]
struct ModelPath {
    model: String,
}

async fn retrieve_model(
    State(proxy): State<Proxy>,
    Path(ModelPath { model }): Path<ModelPath>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let model = match proxy.shared.models.model(&model) {
        Ok(model) => model,
        Err(error) => return told(&uri, &headers, error),
    };
    let entry = match anthropic::is_spoken(&uri, &headers) {
        true => anthropic::model(model).await,
        false => openai::model(model, proxy.shared.started as u64).await,
    };
    axum::Json(entry).into_response()
}

async fn healthz(State(proxy): State<Proxy>) -> Response {
    let models: Vec<&String> = proxy.shared.models.names().collect();
    axum::Json(json!({ "status": "ok", "models": models })).into_response()
}
