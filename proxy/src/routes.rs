use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get, head, post};
use fulgurite_api::{Need, Refused, RouteNeeds};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::base_url::{RightCall, right_base_url, without_last_slash};
use crate::dialects::anthropic::error::RequestId;
use crate::dialects::openai::error::OpenAiError;
use crate::dialects::{anthropic, google, openai};
use crate::endpoints::anthropic::{count_tokens, messages};
use crate::endpoints::compaction::compact;
use crate::endpoints::google::{MethodPath, call as post_to_google};
use crate::endpoints::listed_models::{listed_adapters, listed_model, listed_models};
use crate::endpoints::openai::{chat_completions, completions, embeddings};
use crate::endpoints::unserved_routes::{Unserved, unserved_routes};
use crate::endpoints::vllm_generate::generate;
use crate::endpoints::vllm_tokenizing::{detokenize, health, tokenize};
use crate::endpoints::{model_routes, responses, vllm_control};
use crate::error::ProxyError;
use crate::error::wire_error::Dialect;
use crate::gateway;
use crate::models::caller_key::CallerKey;
use crate::observe::metering::meter;
use crate::proxy::Proxy;
use crate::requests::google_request::is_google_client;

const ATTEMPT: &str = "/rollout/{rollout_id}/attempt/{attempt_id}";

/// Where Tinker has its calls in OpenAI's and in Anthropic's shape: both names stand for `/v1`.
const AS_TINKER: [&str; 2] = ["/oai/api/v1", "/anthropic/api/v1"];

/// Every route of the proxy: the model calls, plain, below `/rollout/{rollout_id}/attempt/{attempt_id}`, with and without `/v1`
/// there, and below Tinker's prefixes, vLLM's own at the root, Agent-lightning's gateway, and `/healthz`. An attempt's path
/// itself, and `HEAD /`, are answered without a body, because some clients check whether a server is there. What each needs of
/// a key is noted in `needs`.
pub fn routes(proxy: Proxy, needs: &mut RouteNeeds) -> Router {
    let mut router = Router::new()
        .route(needs.note("/healthz", Need::Nothing), get(healthz))
        .route(needs.note("/health", Need::Nothing), get(health))
        .route("/", head(StatusCode::OK).fallback(unknown_route));
    for base in ["/v1", &format!("{ATTEMPT}/v1"), ATTEMPT].into_iter().chain(AS_TINKER) {
        for (path, methods) in model_calls() {
            let path = format!("{base}{path}");
            router = router.route(needs.note(&path, Need::ModelCalls), methods.fallback(method_not_allowed));
        }
        for (path, methods) in unserved_routes(not_served) {
            router = router.route(needs.note(&format!("{base}{path}"), Need::ModelCalls), methods);
        }
    }
    for base in ["/v1beta", &format!("{ATTEMPT}/v1beta")] {
        for (path, methods) in models_and_their_methods() {
            let path = format!("{base}{path}");
            router = router.route(needs.note(&path, Need::ModelCalls), methods.fallback(method_not_allowed));
        }
    }
    for base in ["", ATTEMPT] {
        for (path, methods) in calls_at_the_root() {
            let path = format!("{base}{path}");
            router = router.route(needs.note(&path, Need::ModelCalls), methods.fallback(method_not_allowed));
        }
    }
    for prefix in [ATTEMPT, &format!("{ATTEMPT}/"), &format!("{ATTEMPT}/v1"), &format!("{ATTEMPT}/v1/")] {
        let methods = get(StatusCode::OK).fallback(method_not_allowed);
        router = router.route(needs.note_but_head(prefix, Need::ModelCalls), methods);
    }
    let metered = axum::middleware::from_fn_with_state(Arc::clone(&proxy.parts.telemetry), meter);
    router
        .merge(gateway::routes::routes(needs))
        .merge(model_routes::routes())
        .merge(vllm_control::routes())
        .layer(metered)
        .with_state(proxy)
}

/// What agents call below a base URL.
fn model_calls() -> [(&'static str, MethodRouter<Proxy>); 13] {
    let [models, model] = models_and_their_methods();
    [
        ("/chat/completions", post(chat_completions)),
        ("/completions", post(completions)),
        ("/embeddings", post(embeddings)),
        ("/responses", post(responses::create)),
        ("/responses/compact", post(compact)),
        ("/responses/input_tokens", post(responses::input_tokens)),
        ("/responses/{response_id}", get(responses::retrieve).delete(responses::delete)),
        ("/responses/{response_id}/cancel", post(responses::cancel)),
        ("/responses/{response_id}/input_items", get(responses::list_input_items)),
        ("/messages", post(messages)),
        ("/messages/count_tokens", post(count_tokens)),
        models,
        model,
    ]
}

/// The list of models in every dialect, and what Google's clients post to one.
fn models_and_their_methods() -> [(&'static str, MethodRouter<Proxy>); 2] {
    [("/models", get(list_models)), ("/models/{*model}", get(retrieve_model).post(post_to_model))]
}

/// What clients of vLLM call at its root.
fn calls_at_the_root() -> [(&'static str, MethodRouter<Proxy>); 3] {
    [("/inference/v1/generate", post(generate)), ("/tokenize", post(tokenize)), ("/detokenize", post(detokenize))]
}

/// Answers whatever no other route does, in Anthropic's or Google's shape where the client speaks it, otherwise in OpenAI's.
pub async fn unknown_route(request: Request) -> Response {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let without_slash = without_last_slash(&path).map(str::to_owned);
    let right = match without_slash {
        Some(right) => Some(RightCall::Path(right)),
        None => right_base_url(request.uri(), request.headers()).map(RightCall::BaseUrl),
    };
    refusal(&request, ProxyError::UnknownRoute { method, path, right })
}

/// The answer to a request that is not let in, in the dialect that its client speaks.
pub fn refused(uri: &Uri, headers: &HeaderMap, refused: Refused) -> Response {
    error_reply(uri, headers, refused.into())
}

fn not_served(unserved: Unserved) -> MethodRouter<Proxy> {
    any(move |request: Request| async move { refusal(&request, unserved.into()) })
}

async fn method_not_allowed(request: Request) -> Response {
    refusal(&request, ProxyError::MethodNotAllowed { method: request.method().to_string() })
}

fn refusal(request: &Request, error: ProxyError) -> Response {
    error_reply(request.uri(), request.headers(), error)
}

fn error_reply(uri: &Uri, headers: &HeaderMap, error: ProxyError) -> Response {
    match dialect(uri, headers) {
        Dialect::Anthropic => anthropic::error::response(&error, &RequestId::of(Uuid::now_v7())),
        Dialect::Google => google::error::response(&error),
        Dialect::OpenAi => OpenAiError::from(error).into_response(),
    }
}

/// The dialect that a client speaks, as far as its request says.
fn dialect(uri: &Uri, headers: &HeaderMap) -> Dialect {
    match (is_google_client(uri, headers), anthropic::is_anthropic_client(uri, headers)) {
        (true, _) => Dialect::Google,
        (false, true) => Dialect::Anthropic,
        (false, false) => Dialect::OpenAi,
    }
}

async fn list_models(State(proxy): State<Proxy>, uri: Uri, headers: HeaderMap) -> axum::Json<Value> {
    let models = listed_models(&proxy.parts.models).await;
    axum::Json(match dialect(&uri, &headers) {
        Dialect::Anthropic => anthropic::model_list(&models),
        Dialect::Google => google::model_list(&models),
        Dialect::OpenAi => {
            openai::model_list(&models, &listed_adapters(&proxy.parts.models), proxy.parts.started as u64)
        }
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
    request: Request,
) -> Response {
    let key = CallerKey::read(request.method(), request.extensions());
    let (uri, headers) = (request.uri().clone(), request.headers().clone());
    drop(request);
    let model = match proxy.parts.models.shown(&model, &key) {
        Ok(model) => listed_model(&model).await,
        Err(error) => return error_reply(&uri, &headers, error),
    };
    let entry = match dialect(&uri, &headers) {
        Dialect::Anthropic => anthropic::model(&model),
        Dialect::Google => google::model(&model),
        Dialect::OpenAi => openai::model(&model, proxy.parts.started as u64),
    };
    axum::Json(entry).into_response()
}

/// What only Google's clients do, at the path of a model that others get.
async fn post_to_model(state: State<Proxy>, path: Path<MethodPath>, request: Request) -> Response {
    let is_google = is_google_client(request.uri(), request.headers());
    match is_google {
        true => post_to_google(state, path, request).await,
        false => method_not_allowed(request).await,
    }
}

/// The server answers; and what it samples its models from.
async fn healthz(State(proxy): State<Proxy>) -> Response {
    axum::Json(json!({ "status": "ok", "models": proxy.parts.models.weights_health() })).into_response()
}
