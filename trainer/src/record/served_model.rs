//! A model that a server samples for its agents.

use async_trait::async_trait;
use fulgurite_backends::{BackendError, NewWeights, WeightsReceiver};
use fulgurite_client::{PostedWeights, Server};
use fulgurite_types::{PublicationCause, Replaces};
use serde_json::json;

use crate::RecordError;

/// A model that a server samples for its agents, behind which new weights are put.
#[derive(Clone)]
pub struct RemotelyServedModel {
    server: Server,
    name: String,
}

impl RemotelyServedModel {
    /// The model that agents call `name` at `server`.
    pub fn new(server: Server, name: impl Into<String>) -> Self {
        Self { server, name: name.into() }
    }

    /// Whether the server is there, takes the key, and serves the model.
    pub async fn check(&self) -> Result<(), RecordError> {
        Ok(self.server.check_model(&self.name).await?)
    }
}

#[async_trait]
impl WeightsReceiver for RemotelyServedModel {
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        let refused = |error: String| BackendError::Configuration { message: error };
        let source = serde_json::from_value(json!(weights.source)).map_err(|error| refused(error.to_string()))?;
        let weights = PostedWeights {
            version: weights.version,
            source,
            replaces: Replaces::Anything,
            cause: PublicationCause::Update,
        };
        let loaded = self.server.load_weights(&self.name, weights).await;
        loaded.map_err(|error| refused(error.to_string()))
    }
}
