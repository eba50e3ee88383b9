//! What is asked of a server about a model that it samples for its agents.

use std::sync::Once;

use fulgurite_types::{Object, PublicationCause, Replaces, WeightsVersion};
use serde::Deserialize;
use serde_json::json;

use crate::{Server, ServerError};

/// The field of posted weights that names their run.
const RUN_ID: &str = "run_id";

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
        let PostedWeights { version, source, run_id, replaces, cause } = weights;
        let path =
            source.iter().find(|(kind, _)| *kind != "kept").and_then(|(_, path)| path.as_str().map(str::to_owned));
        let mut body = source;
        body.insert("version".to_owned(), version.0.into());
        body.insert("cause".to_owned(), json!(cause));
        let replaces = match replaces {
            Replaces::Anything => json!("anything"),
            Replaces::Older => json!("older"),
            Replaces::Version(version) => json!(version),
        };
        body.insert("replaces".to_owned(), replaces);
        let without_run = run_id.is_some().then(|| body.clone());
        body.extend(run_id.map(|run_id| (RUN_ID.to_owned(), run_id.into())));
        let posted: Result<State, ServerError> = self.post_weights(&url, &body, path.as_deref()).await;
        let state = match (posted, without_run) {
            (Err(ServerError::Refused { status: 400, message, .. }), Some(body)) if message.contains(RUN_ID) => {
                static SAID: Once = Once::new();
                SAID.call_once(|| {
                    tracing::warn!(%url, "the server is of an earlier release, so that it is not told which run its weights are of");
                });
                self.post_weights(&url, &body, path.as_deref()).await?
            }
            (posted, _) => posted?,
        };
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
