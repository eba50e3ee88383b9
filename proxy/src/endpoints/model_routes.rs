//! Routes that change a served model while it runs: pause and resume its calls, and put new weights behind it.

use std::path::PathBuf;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use fulgurite_backends::{Notation, WeightsSource, plain_words};
use fulgurite_types::{PublicationCause, Replaces, ServingState, WeightsId, WeightsVersion};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::dialects::openai::error::OpenAiError;
use crate::error::ProxyError;
use crate::models::gate::Holder;
use crate::models::served_models::ServedModels;
use crate::models::weights::posted_weights::PostedWeights;
use crate::proxy::Proxy;

const MODEL: &str = "/v1/fulgurite/models/{model}";

/// `GET` of a model, and `POST` of `pause`, `resume` and `weights` below it.
pub(crate) fn routes() -> Router<Proxy> {
    Router::new()
        .route(MODEL, get(state))
        .route(&format!("{MODEL}/pause"), post(pause))
        .route(&format!("{MODEL}/resume"), post(resume))
        .route(&format!("{MODEL}/weights"), post(load_weights))
}

/// The state of a model.
#[derive(Serialize)]
struct ModelState {
    model: String,
    /// Null where that is not known.
    weights_version: Option<WeightsVersion>,
    /// Which weights these are; null where that is not known.
    weights_id: Option<WeightsId>,
    /// Those that the server was started with, whatever was put behind the model since; null where that is not known.
    own_weights_id: Option<WeightsId>,
    /// How far it has got with the newest ones.
    weights_state: ServingState,
    /// Why it has not got there.
    weights_message: Option<String>,
    paused: bool,
    reason: Option<String>,
    /// Calls that its host works on.
    in_flight: usize,
    /// Calls that wait for it to be resumed.
    held: usize,
}

impl ModelState {
    fn of(models: &ServedModels, name: &str) -> Result<Json<Self>, ProxyError> {
        let gate = models.gate(name)?.state();
        let (own_weights_id, weights) = (models.weights(name)?.own_weights(), models.weights(name)?.status());
        Ok(Json(Self {
            model: name.to_owned(),
            weights_version: models.model(name)?.sampled().and_then(|model| model.sampler.weights_version()),
            weights_id: weights.weights_id,
            own_weights_id,
            weights_state: weights.state,
            weights_message: weights.message,
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
    /// Without one, they get the next that is free.
    version: Option<WeightsVersion>,
    model: Option<PathBuf>,
    adapter: Option<PathBuf>,
    kept: Option<String>,
    /// A version, or `anything`; without it an older version.
    replaces: Option<Value>,
    /// The whole weights that an adapter is over; without it, the model that the server was started with.
    base: Option<WeightsId>,
    /// The run that made them. A version that a run named is accepted with its id alone.
    run_id: Option<String>,
    cause: Option<PublicationCause>,
}

impl WeightsRequest {
    fn weights(self) -> Result<PostedWeights, ProxyError> {
        let Self { version, model, adapter, kept, replaces, base, run_id, cause } = self;
        if base.is_some() && adapter.is_none() {
            return Err(ProxyError::invalid("base", "only an `adapter` is over a base"));
        }
        // The store has versions as signed numbers.
        if version.is_some_and(|version| i64::try_from(version.0).is_err()) {
            return Err(ProxyError::invalid("version", format!("a version is {} at most", i64::MAX)));
        }
        let replaces = replaces.as_ref().map_or(Ok(Replaces::Older), replaced)?;
        let named =
            [model.map(WeightsSource::Model), adapter.map(WeightsSource::Adapter), kept.map(WeightsSource::Kept)];
        let mut named = named.into_iter().flatten();
        match (named.next(), named.next()) {
            (Some(source), None) => {
                let cause = cause.unwrap_or(PublicationCause::Update);
                Ok(PostedWeights { source, base, run_id, version, replaces, cause })
            }
            _ => {
                Err(ProxyError::invalid("model", "one of `model`, `adapter` and `kept` must say where the weights are"))
            }
        }
    }
}

/// What posted weights may take the place of.
fn replaced(value: &Value) -> Result<Replaces, ProxyError> {
    match (value.as_u64(), value.as_str()) {
        (Some(version), _) => Ok(Replaces::Version(version)),
        (_, Some("anything")) => Ok(Replaces::Anything),
        (_, Some("older")) => Ok(Replaces::Older),
        _ => {
            let message = format!("replaces is {value}, but must be a version, \"anything\" or \"older\"");
            Err(ProxyError::invalid("replaces", message))
        }
    }
}

async fn state(State(proxy): State<Proxy>, Path(model): Path<String>) -> Result<Json<ModelState>, OpenAiError> {
    Ok(ModelState::of(&proxy.parts.models, &model)?)
}

/// Calls that come from now on are held: they wait, and their streams give signs of life.
async fn pause(
    State(proxy): State<Proxy>,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Json<ModelState>, OpenAiError> {
    let request: PauseRequest = if body.is_empty() { PauseRequest::default() } else { read(&body)? };
    let gate = proxy.parts.models.gate(&model)?;
    gate.pause(Holder::Operator, request.reason);
    if request.drain {
        gate.drained().await;
    }
    Ok(ModelState::of(&proxy.parts.models, &model)?)
}

/// Calls continue, unless the gateway is paused or the model's weights are being restored.
async fn resume(State(proxy): State<Proxy>, Path(model): Path<String>) -> Result<Json<ModelState>, OpenAiError> {
    proxy.parts.models.gate(&model)?.resume(Holder::Operator);
    Ok(ModelState::of(&proxy.parts.models, &model)?)
}

/// Answers once the host confirms the weights and they are published.
async fn load_weights(
    State(proxy): State<Proxy>,
    Path(model): Path<String>,
    body: Bytes,
) -> Result<Json<ModelState>, OpenAiError> {
    let posted = read::<WeightsRequest>(&body)?.weights()?;
    let of = proxy.parts.weights_of(&model)?;
    proxy.parts.models.weights(&model)?.post(&of, posted).await?;
    Ok(ModelState::of(&proxy.parts.models, &model)?)
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ProxyError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        let message = plain_words(&error.into_inner().to_string(), &path, Notation::Json);
        ProxyError::InvalidRequest { message, parameter: (path != ".").then_some(path), code: None }
    })
}
