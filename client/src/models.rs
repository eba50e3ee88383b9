//! What is asked of a server about a model that it samples for its agents.

use fulgurite_types::{Object, PublicationCause, Replaces, WeightsVersion};
use serde::Deserialize;
use serde_json::json;

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

    /// Puts new weights behind a model.
    pub async fn load_weights(&self, name: &str, weights: PostedWeights) -> Result<(), ServerError> {
        let url = self.route(&["v1", "fulgurite", "models", name, "weights"]);
        let PostedWeights { version, source: mut body, run_id, replaces, cause } = weights;
        body.insert("version".to_owned(), version.0.into());
        body.insert("cause".to_owned(), json!(cause));
        if let Some(run_id) = run_id {
            body.insert("run_id".to_owned(), run_id.into());
        }
        let replaces = match replaces {
            Replaces::Anything => json!("anything"),
            Replaces::Older => json!("older"),
            Replaces::Version(version) => json!(version),
        };
        body.insert("replaces".to_owned(), replaces);
        let state: State = self.post_weights(&url, &body).await?;
        match state.weights_version {
            Some(told) if told != version => {
                Err(self.wrong(&url, format!("its weights are of version {}, not {}", told.0, version.0)))
            }
            _ => Ok(()),
        }
    }
}

/// Weights that are put behind a served model.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedWeights {
    /// What tokens sampled from them are recorded with.
    pub version: WeightsVersion,
    /// Where they are, in the words of the route.
    pub source: Object,
    /// The run that named the version, if one did.
    pub run_id: Option<String>,
    /// What they may take the place of.
    pub replaces: Replaces,
    /// Why they are put there.
    pub cause: PublicationCause,
}
