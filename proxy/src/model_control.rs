//! What is done to a served model while it runs: hold its calls, let them go on, put new weights behind it.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use fulgurite_backends::{NewWeights, WeightsSource, WeightsVersion};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Proxy;
use crate::error::ProxyError;
use crate::gate::GateState;
use crate::openai::error::OpenAiError;

const MODEL: &str = "/v1/fulgurite/models/{model}";

/// `GET` of a model, and `POST` of `pause`, `resume` and `weights` below it.
pub(crate) fn routes() -> Router<Proxy> {
    Router::new()
        .route(MODEL, get(state))
        .route(&format!("{MODEL}/pause"), post(pause))
        .route(&format!("{MODEL}/resume"), post(resume))
        .route(&format!("{MODEL}/weights"), post(load_weights))
}

/// How a model stands.
#[derive(Serialize)]
struct ModelState {
    model: String,
    /// Null where that is not known.
    weights_version: Option<WeightsVersion>,
    paused: bool,
    reason: Option<String>,
    /// Calls that its host works on.
    in_flight: usize,
    /// Calls that wait for it to be resumed.
    held: usize,
}

impl ModelState {
    fn of(proxy: &Proxy, name: &str) -> Result<Json<Self>, ProxyError> {
        let GateState { paused, reason, in_flight, held } = proxy.gate(name)?.state();
        let weights_version = proxy.model(name)?.sampled().and_then(|model| model.sampler.weights_version());
        Ok(Json(Self { model: name.to_owned(), weights_version, paused, reason, in_flight, held }))
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseRequest {
    reason: Option<String>,
    /// Answer only once no call is at the host any more.
    #[serde(default)]
    drain: bool,
}

#[derive(Deserialize)]
struct WeightsRequest {
    version: WeightsVersion,
    #[serde(flatten)]
    source: WeightsSource,
}

async fn state(State(proxy): State<Proxy>, Path(model): Path<String>) -> Result<Json<ModelState>, OpenAiError> {
    Ok(ModelState::of(&proxy, &model)?)
}

/// Calls that come from now on are held: they wait, and their streams give signs of life.
async fn pause(
    State(proxy): State<Proxy>,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Json<ModelState>, OpenAiError> {
    let request: PauseRequest = if body.is_empty() { PauseRequest::default() } else { read(&body)? };
    let gate = proxy.gate(&model)?;
    gate.pause(request.reason);
    if request.drain {
        gate.drained().await;
    }
    Ok(ModelState::of(&proxy, &model)?)
}

async fn resume(State(proxy): State<Proxy>, Path(model): Path<String>) -> Result<Json<ModelState>, OpenAiError> {
    proxy.gate(&model)?.resume();
    Ok(ModelState::of(&proxy, &model)?)
}

/// Answers once the host confirms the weights. It goes on to the end though nobody waits: a host is not to be left in
/// the middle of it.
async fn load_weights(
    State(proxy): State<Proxy>,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Json<ModelState>, OpenAiError> {
    let WeightsRequest { version, source } = read(&body)?;
    let sampler = proxy.sampled_model(&model)?.sampler.clone();
    let weights = NewWeights { version, source };
    let loading = tokio::spawn(async move { sampler.load_weights(&weights).await });
    let loaded =
        loading.await.map_err(|error| fulgurite_backends::BackendError::Internal { message: error.to_string() });
    loaded.and_then(|loaded| loaded).map_err(ProxyError::from)?;
    tracing::info!(model, version = version.0, "new weights are behind a model");
    Ok(ModelState::of(&proxy, &model)?)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ProxyError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json)
        .map_err(|error| ProxyError::invalid(&error.path().to_string(), error.into_inner().to_string()))
}
