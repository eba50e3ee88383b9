use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::GatewayError;
use crate::Proxy;

/// A server that somebody says answers for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemoteModel {
    model: String,
    endpoint: String,
    #[serde(default)]
    version: i64,
}

/// Servers that were registered, in that order. Calls are not forwarded to them.
#[derive(Default)]
pub(crate) struct RemoteModels {
    models: Mutex<Vec<RemoteModel>>,
}

impl RemoteModels {
    fn models(&self) -> MutexGuard<'_, Vec<RemoteModel>> {
        // The list is whole after every statement, so a poisoned lock holds nothing broken.
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a server in the place of the same one, or at the end.
    fn register(&self, model: &RemoteModel) {
        let mut models = self.models();
        let same = |known: &&mut RemoteModel| known.model == model.model && known.endpoint == model.endpoint;
        match models.iter_mut().find(same) {
            Some(known) => *known = model.clone(),
            None => models.push(model.clone()),
        }
    }

    fn endpoint_of(&self, model: &str) -> Option<String> {
        self.models().iter().find(|known| known.model == model).map(|known| known.endpoint.clone())
    }
}

/// The model that answers a call: the one it names, or the only one, whatever the agent calls it.
pub(super) fn model_of_call(proxy: &Proxy, named: Option<&str>) -> Result<String, GatewayError> {
    let served = &proxy.shared.models;
    if let Some(name) = named {
        if served.contains_key(name) {
            return Ok(name.to_owned());
        }
        if let Some(endpoint) = proxy.shared.remote_models.endpoint_of(name) {
            return Err(GatewayError::NoServer(format!(
                "No server for model {name}: {endpoint} is registered for it, but calls are not forwarded"
            )));
        }
    }
    let names: Vec<&str> = served.keys().map(String::as_str).collect();
    match (names.as_slice(), named) {
        ([only], _) => Ok((*only).to_owned()),
        ([], _) => Err(GatewayError::NoServer("No server for any model: this one serves none".to_owned())),
        (several, named) => Err(GatewayError::NoServer(format!(
            "No server for model {}: name one of {}",
            named.unwrap_or("of no name"),
            several.join(", ")
        ))),
    }
}

/// Reads a body; a mistake is told with its place in it.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, GatewayError> {
    let mut json = serde_json::Deserializer::from_slice(body);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let segments = error.path().iter().map(|segment| match segment {
            serde_path_to_error::Segment::Seq { index } => json!(index),
            other => json!(other.to_string()),
        });
        let place = std::iter::once(json!("body")).chain(segments).collect();
        GatewayError::Unprocessable { place, message: error.into_inner().to_string() }
    })
}

/// `POST /api/models`: registers servers, or new versions of known ones.
pub(crate) async fn register(
    State(proxy): State<Proxy>,
    body: Bytes,
) -> Result<(StatusCode, Json<Vec<RemoteModel>>), GatewayError> {
    let models: Vec<RemoteModel> = read(&body)?;
    models.iter().for_each(|model| proxy.shared.remote_models.register(model));
    Ok((StatusCode::CREATED, Json(models)))
}

/// `DELETE /api/models`: forgets every registered server. The models that are served here stay.
pub(crate) async fn clear(State(proxy): State<Proxy>) -> Json<Value> {
    proxy.shared.remote_models.models().clear();
    Json(json!({ "status": "ok" }))
}

/// `GET /api/models`: what is served here, which has no endpoint of its own, and what was registered.
pub(crate) async fn list(State(proxy): State<Proxy>) -> Json<Value> {
    let served = proxy.shared.models.values().map(|model| {
        let version = model.sampled().and_then(|model| model.sampler.weights_version());
        json!({ "model": model.name(), "endpoint": null, "version": version })
    });
    let remote: Vec<Value> = proxy.shared.remote_models.models().iter().map(|model| json!(model)).collect();
    Json(served.chain(remote).collect())
}
