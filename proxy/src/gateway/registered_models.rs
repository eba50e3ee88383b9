use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use fulgurite_backends::{
    BackendError, Notation, ReplicaOptions, Upstream, UpstreamDialect, UpstreamOptions, plain_words,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::error::GatewayError;
use super::pause::check_open;
use crate::{Proxy, ServedModel, UpstreamModel};

/// A server that somebody says answers for a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RemoteModel {
    model: String,
    endpoint: String,
    #[serde(default)]
    version: i64,
}

/// Servers that were registered, to which calls of their models are passed on.
#[derive(Default)]
pub(crate) struct RemoteModels {
    registered: Mutex<Registered>,
}

#[derive(Clone, Default)]
struct Registered {
    /// In the order of their registration.
    servers: Vec<RemoteModel>,
    /// By name: all servers of a model are one upstream.
    models: BTreeMap<String, UpstreamModel>,
}

impl RemoteModels {
    fn registered(&self) -> MutexGuard<'_, Registered> {
        // All of it is put in its place at once, so that a poisoned lock holds nothing broken.
        self.registered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts each server in the place of the same one, or at the end: all of them, or none if one cannot be used.
    fn register(&self, servers: &[RemoteModel]) -> Result<(), GatewayError> {
        let mut registered = self.registered();
        let mut next = registered.clone();
        for (index, server) in servers.iter().enumerate() {
            next.put(server);
            let upstream = next.upstream(&server.model).map_err(|error| GatewayError::Unprocessable {
                place: vec![json!("body"), json!(index), json!("endpoint")],
                message: error.to_string(),
            })?;
            next.models.insert(server.model.clone(), upstream);
        }
        *registered = next;
        Ok(())
    }
}

impl Registered {
    fn put(&mut self, server: &RemoteModel) {
        let same = |known: &&mut RemoteModel| known.model == server.model && known.endpoint == server.endpoint;
        match self.servers.iter_mut().find(same) {
            Some(known) => *known = server.clone(),
            None => self.servers.push(server.clone()),
        }
    }

    fn upstream(&self, model: &str) -> Result<UpstreamModel, BackendError> {
        let servers = self.servers.iter().filter(|server| server.model == model);
        let options = UpstreamOptions {
            urls: servers.map(|server| server.endpoint.clone()).collect(),
            dialect: UpstreamDialect::OpenAi,
            api_key: None,
            key_header: None,
            replicas: ReplicaOptions { model: model.to_owned(), ..ReplicaOptions::default() },
        };
        let upstream = Arc::new(Upstream::new(&options)?);
        Ok(UpstreamModel { name: model.to_owned(), upstream_name: model.to_owned(), upstream })
    }
}

/// Who answers a call.
pub(super) enum ModelOfCall {
    Served(ServedModel),
    Registered(UpstreamModel),
}

impl ModelOfCall {
    pub(super) fn name(&self) -> &str {
        match self {
            ModelOfCall::Served(model) => model.name(),
            ModelOfCall::Registered(model) => &model.name,
        }
    }

    /// Refuses the call if its model is paused. Those of others are not ours to pause.
    pub(super) fn check_open(&self, proxy: &Proxy) -> Result<(), GatewayError> {
        match self {
            ModelOfCall::Served(model) => check_open(proxy, model.name()),
            ModelOfCall::Registered(_) => Ok(()),
        }
    }

    /// Whether it knows the field that asks for token ids: what is registered is a model server of Agent-lightning's.
    pub(super) fn tells_token_ids(&self) -> bool {
        !matches!(self, ModelOfCall::Served(ServedModel::Upstream(_)))
    }

    pub(super) fn is_registered(&self) -> bool {
        matches!(self, ModelOfCall::Registered(_))
    }

    /// To whom the call is passed on, if it is.
    pub(super) fn upstream(&self) -> Option<&UpstreamModel> {
        match self {
            ModelOfCall::Served(ServedModel::Upstream(model)) | ModelOfCall::Registered(model) => Some(model),
            ModelOfCall::Served(ServedModel::Sampled(_)) => None,
        }
    }
}

/// The model that answers a call: the one it names, or the only one, whatever the agent calls it.
pub(super) fn model_of_call(proxy: &Proxy, named: Option<&str>) -> Result<ModelOfCall, GatewayError> {
    let served = &proxy.shared.models;
    let registered = proxy.shared.remote_models.registered().models.clone();
    let find = |name: &str| match served.get(name) {
        Some(model) => Some(ModelOfCall::Served(model.clone())),
        None => registered.get(name).cloned().map(ModelOfCall::Registered),
    };
    if let Some(model) = named.and_then(find) {
        return Ok(model);
    }
    let names: BTreeSet<&str> = served.keys().chain(registered.keys()).map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let only = if let [only] = names.as_slice() { find(only) } else { None };
    only.ok_or_else(|| match (names.as_slice(), named) {
        ([], _) => GatewayError::NoServer("No server for any model: this one serves none".to_owned()),
        (several, named) => GatewayError::NoServer(format!(
            "No server for model {}: name one of {}",
            named.unwrap_or("of no name"),
            several.join(", ")
        )),
    })
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
        let path = error.path().to_string();
        GatewayError::Unprocessable {
            place,
            message: plain_words(&error.into_inner().to_string(), &path, Notation::Json),
        }
    })
}

/// `POST /api/models`: registers servers, or new versions of known ones.
pub(crate) async fn register(
    State(proxy): State<Proxy>,
    body: Bytes,
) -> Result<(StatusCode, Json<Vec<RemoteModel>>), GatewayError> {
    let models: Vec<RemoteModel> = read(&body)?;
    proxy.shared.remote_models.register(&models)?;
    Ok((StatusCode::CREATED, Json(models)))
}

/// `DELETE /api/models`: forgets every registered server. The models that are served here stay.
pub(crate) async fn clear(State(proxy): State<Proxy>) -> Json<Value> {
    *proxy.shared.remote_models.registered() = Registered::default();
    Json(json!({ "status": "ok" }))
}

/// `GET /api/models`: what is served here, which has no endpoint of its own, and what was registered.
pub(crate) async fn list(State(proxy): State<Proxy>) -> Json<Value> {
    let served = proxy.shared.models.values().map(|model| {
        let version = model.sampled().and_then(|model| model.sampler.weights_version());
        json!({ "model": model.name(), "endpoint": null, "version": version })
    });
    let remote: Vec<Value> =
        proxy.shared.remote_models.registered().servers.iter().map(|server| json!(server)).collect();
    Json(served.chain(remote).collect())
}
