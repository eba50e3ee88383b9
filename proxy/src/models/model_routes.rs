//! What is done to a served model while it runs: hold its calls, let them go on, put new weights behind it, and put them
//! back after a restart.

use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use fulgurite_backends::{NewWeights, Notation, WeightsSource, plain_words};
use fulgurite_types::{ModelWeights, WeightsVersion};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::Proxy;
use crate::dialects::openai::error::OpenAiError;
use crate::error::ProxyError;
use crate::models::gate::Holder;

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
        let gate = proxy.gate(name)?.state();
        Ok(Json(Self {
            model: name.to_owned(),
            weights_version: proxy.model(name)?.sampled().and_then(|model| model.sampler.weights_version()),
            paused: gate.is_paused(),
            reason: gate.reason().map(str::to_owned),
            in_flight: gate.in_flight,
            held: gate.held,
        }))
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

/// New weights, and one place where they are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WeightsRequest {
    version: WeightsVersion,
    model: Option<PathBuf>,
    adapter: Option<PathBuf>,
    kept: Option<String>,
}

impl WeightsRequest {
    fn weights(self) -> Result<NewWeights, ProxyError> {
        let Self { version, model, adapter, kept } = self;
        let named =
            [model.map(WeightsSource::Model), adapter.map(WeightsSource::Adapter), kept.map(WeightsSource::Kept)];
        let mut named = named.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(source), None) => Ok(NewWeights { version, source }),
            _ => {
                Err(ProxyError::invalid("model", "one of `model`, `adapter` and `kept` must say where the weights are"))
            }
        }
    }
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
    gate.pause(Holder::Operator, request.reason);
    if request.drain {
        gate.drained().await;
    }
    Ok(ModelState::of(&proxy, &model)?)
}

/// Calls go on, unless the gateway is paused or the model's weights are being put back.
async fn resume(State(proxy): State<Proxy>, Path(model): Path<String>) -> Result<Json<ModelState>, OpenAiError> {
    proxy.gate(&model)?.resume(Holder::Operator);
    Ok(ModelState::of(&proxy, &model)?)
}

/// Answers once the host confirms the weights and that is noted for a server that is started anew.
async fn load_weights(
    State(proxy): State<Proxy>,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Json<ModelState>, OpenAiError> {
    let weights = read::<WeightsRequest>(&body)?.weights()?;
    let sampler = &proxy.sampled_model(&model)?.sampler;
    proxy.weights_loads(&model)?.load(&model, sampler, &proxy.shared.store, weights).await?;
    Ok(ModelState::of(&proxy, &model)?)
}

/// What a model is held for meanwhile.
const PUTTING_BACK: &str = "its weights are put back after a restart";

impl Proxy {
    /// Puts weights back that were behind models before the server was started anew; those of models that are not served
    /// are passed over. A model's calls are held meanwhile, so that none is answered from others.
    pub fn put_back(&self, kept: Vec<ModelWeights>) {
        for ModelWeights { model, version, source } in kept {
            let (Ok(served), Ok(gate), Ok(loads)) =
                (self.sampled_model(&model), self.gate(&model), self.weights_loads(&model))
            else {
                continue;
            };
            let source = match WeightsSource::deserialize(&source) {
                Ok(source) => source,
                Err(error) => {
                    tracing::error!(model, version, %error, "where the model's last weights are cannot be read");
                    continue;
                }
            };
            let (sampler, gate, loads) = (served.sampler.clone(), gate.clone(), loads.clone());
            let weights = NewWeights { version: WeightsVersion(version), source };
            gate.pause(Holder::PutBack, Some(PUTTING_BACK.to_owned()));
            tokio::spawn(async move {
                loads.put_back(&model, sampler.as_ref(), &weights).await;
                gate.resume(Holder::PutBack);
            });
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ProxyError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let message = plain_words(&error.into_inner().to_string(), &path, Notation::Json);
        ProxyError::InvalidRequest { message, parameter: (path != ".").then_some(path), code: None }
    })
}
