//! A model that a server samples for its agents.

use async_trait::async_trait;
use fulgurite_backends::{BackendError, NewWeights, WeightsReceiver};
use fulgurite_types::WeightsVersion;
use serde::Deserialize;
use serde_json::json;

use crate::{RecordError, Server};

/// A model that a server samples for its agents, behind which new weights are put.
#[derive(Clone)]
pub struct RemotelyServedModel {
    server: Server,
    name: String,
}

/// What the server says of it.
#[derive(Deserialize)]
struct State {
    model: String,
    /// Null where the server does not know.
    weights_version: Option<WeightsVersion>,
}

impl RemotelyServedModel {
    /// The model that agents call `name` at `server`.
    pub fn new(server: Server, name: impl Into<String>) -> Self {
        Self { server, name: name.into() }
    }

    /// Whether the server is there, takes the key, and serves the model.
    pub async fn check(&self) -> Result<(), RecordError> {
        let url = self.server.route(&["v1", "fulgurite", "models", &self.name]);
        let state: State = self.server.get(&url).await?;
        match state.model == self.name {
            true => Ok(()),
            false => Err(self.server.wrong(&url, format!("it is of model {}", state.model))),
        }
    }

    async fn load(&self, weights: &NewWeights) -> Result<(), RecordError> {
        let url = self.server.route(&["v1", "fulgurite", "models", &self.name, "weights"]);
        let mut body = json!(weights.source);
        if let Some(body) = body.as_object_mut() {
            body.insert("version".to_owned(), json!(weights.version));
        }
        let state: State = self.server.post_weights(&url, &body).await?;
        match state.weights_version {
            Some(version) if version != weights.version => {
                let reason = format!("its weights are of version {}, not {}", version.0, weights.version.0);
                Err(self.server.wrong(&url, reason))
            }
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl WeightsReceiver for RemotelyServedModel {
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        self.load(weights).await.map_err(|error| BackendError::Configuration { message: error.to_string() })
    }
}
