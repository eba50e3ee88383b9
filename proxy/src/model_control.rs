//! What is done to a served model while it runs: hold its calls, let them go on, put new weights behind it, and put them
//! back after a restart.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use fulgurite_backends::{BackendError, NewWeights, Sampler, WeightsSource, WeightsVersion};
use fulgurite_store::model::ModelWeights;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;

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

/// Answers once the host confirms the weights and that is noted for a server that is started anew. It goes on to the end though nobody waits: a host is not to be left in
/// the middle of it.
async fn load_weights(
    State(proxy): State<Proxy>,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Json<ModelState>, OpenAiError> {
    let WeightsRequest { version, source } = read(&body)?;
    let sampler = proxy.sampled_model(&model)?.sampler.clone();
    let weights = NewWeights { version, source };
    let noted = ModelWeights { model: model.clone(), version: version.0, source: json!(weights.source) };
    let store = proxy.shared.store.clone();
    let loading = tokio::spawn(async move {
        sampler.load_weights(&weights).await?;
        store.set_model_weights(noted).await.map_err(ProxyError::from)
    });
    loading
        .await
        .map_err(|error| BackendError::Internal { message: error.to_string() })
        .map_err(ProxyError::from)??;
    tracing::info!(model, version = version.0, "new weights are behind a model");
    Ok(ModelState::of(&proxy, &model)?)
}

/// The pause before weights that could not be put back are tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// What a model is held for meanwhile.
const PUTTING_BACK: &str = "its weights are put back after a restart";

impl Proxy {
    /// Puts weights back that were behind models before the server was started anew; those of models that are not served
    /// are passed over. A model's calls are held meanwhile, so that none is answered from others.
    pub fn put_back(&self, kept: Vec<ModelWeights>) {
        for ModelWeights { model, version, source } in kept {
            let (Ok(served), Ok(gate)) = (self.sampled_model(&model), self.gate(&model)) else { continue };
            let source = match WeightsSource::deserialize(&source) {
                Ok(source) => source,
                Err(error) => {
                    tracing::error!(model, version, %error, "where the model's last weights are cannot be read");
                    continue;
                }
            };
            let (sampler, gate) = (served.sampler.clone(), gate.clone());
            let weights = NewWeights { version: WeightsVersion(version), source };
            gate.pause(Some(PUTTING_BACK.to_owned()));
            tokio::spawn(async move {
                put_back(&model, sampler.as_ref(), &weights).await;
                gate.resume();
            });
        }
    }
}

/// Tries until the host is there. One that will never take these weights goes on with its own, whose version is recorded.
async fn put_back(model: &str, sampler: &dyn Sampler, weights: &NewWeights) {
    let version = weights.version.0;
    loop {
        match sampler.load_weights(weights).await {
            Ok(()) => return tracing::info!(model, version, "the last weights are behind a model again"),
            Err(error @ (BackendError::Unavailable { .. } | BackendError::Overloaded { .. })) => {
                tracing::warn!(model, version, %error, "the last weights are put back once the model's host is there");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => {
                return tracing::error!(model, version, %error, "the last weights cannot be put back behind a model");
            }
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ProxyError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json)
        .map_err(|error| ProxyError::invalid(&error.path().to_string(), error.into_inner().to_string()))
}
