//! What is asked of a server about a model that it samples for its agents.

use fulgurite_types::{Object, WeightsVersion};
use serde::Deserialize;

use crate::{Server, ServerError};

/// What the server says of it.
#[derive(Deserialize)]
struct State {
    model: String,
    /// Null where the server does not know.
    weights_version: Option<WeightsVersion>,
}

impl Server {
    /// Whether the server is there, takes the key, and serves a model of this name.
    pub async fn check_model(&self, name: &str) -> Result<(), ServerError> {
        self.model_state(name).await.map(drop)
    }

    /// The version of the weights that are behind a model; `None` where the server does not know.
    pub async fn weights_version(&self, name: &str) -> Result<Option<WeightsVersion>, ServerError> {
        Ok(self.model_state(name).await?.weights_version)
    }

    async fn model_state(&self, name: &str) -> Result<State, ServerError> {
        let url = self.route(&["v1", "fulgurite", "models", name]);
        let state: State = self.get(&url).await?;
        match state.model == name {
            true => Ok(state),
            false => Err(self.wrong(&url, format!("it is of model {}", state.model))),
        }
    }

    /// Puts new weights behind a model: `source` says where they are, in the words of the route.
    pub async fn load_weights(
        &self,
        name: &str,
        version: WeightsVersion,
        mut source: Object,
    ) -> Result<(), ServerError> {
        let url = self.route(&["v1", "fulgurite", "models", name, "weights"]);
        source.insert("version".to_owned(), version.0.into());
        let state: State = self.post_weights(&url, &source).await?;
        match state.weights_version {
            Some(told) if told != version => {
                Err(self.wrong(&url, format!("its weights are of version {}, not {}", told.0, version.0)))
            }
            _ => Ok(()),
        }
    }
}
