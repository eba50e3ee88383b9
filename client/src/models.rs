//! What is asked of a server about a model that it samples for its agents.

use std::sync::Once;

use fulgurite_types::{Object, PublicationCause, Replaces, WeightsId, WeightsVersion};
use serde::Deserialize;
use serde_json::json;

use crate::{Server, ServerError};

/// The fields of posted weights that servers of earlier releases do not know.
const LATER_FIELDS: [&str; 2] = ["run_id", "base"];

/// What the server says of it.
#[derive(Deserialize)]
struct State {
    model: String,
    /// Null where the server does not know.
    weights_version: Option<WeightsVersion>,
    /// Missing at servers of earlier releases.
    own_weights_id: Option<WeightsId>,
}

/// The weights of a served model, as far as its server knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedModelWeights {
    /// The version of those that are behind it.
    pub version: Option<WeightsVersion>,
    /// Those that the server was started with.
    pub own: Option<WeightsId>,
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

    /// The weights of a model.
    pub async fn model_weights(&self, name: &str) -> Result<ServedModelWeights, ServerError> {
        let State { weights_version: version, own_weights_id: own, .. } = self.model_state(name).await?;
        Ok(ServedModelWeights { version, own })
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
        let PostedWeights { version, source, base, run_id, replaces, cause } = weights;
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
        body.extend(run_id.map(|run_id| ("run_id".to_owned(), run_id.into())));
        body.extend(base.map(|base| ("base".to_owned(), json!(base))));
        let state: State = loop {
            let posted = self.post_weights(&url, &body, path.as_deref()).await;
            let unknown = match &posted {
                Err(ServerError::Refused { status: 400, message, .. }) => unknown_field(&body, message),
                _ => None,
            };
            let Some(unknown) = unknown else { break posted? };
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(%url, field = unknown, "the server is of an earlier release, which this is not sent to");
            });
            body.remove(unknown);
        };
        match state.weights_version {
            Some(known) if known != version => {
                Err(self.wrong(&url, format!("its weights are of version {}, not {}", known.0, version.0)))
            }
            _ => Ok(()),
        }
    }
}

/// The field which a server refuses that does not know it.
fn unknown_field(body: &Object, message: &str) -> Option<&'static str> {
    let is_named = |field: &str| message.contains(&format!("no key `{field}`"));
    LATER_FIELDS.into_iter().find(|field| body.contains_key(*field) && is_named(field))
}

/// Weights that are put behind a served model.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedWeights {
    /// What tokens sampled from them are recorded with.
    pub version: WeightsVersion,
    /// Where they are, in the words of the route.
    pub source: Object,
    /// The whole weights that an adapter is over. A server was started with them, unless they are named.
    pub base: Option<WeightsId>,
    /// The run that named the version, if one did.
    pub run_id: Option<String>,
    /// What they may take the place of.
    pub replaces: Replaces,
    /// Why they are put there.
    pub cause: PublicationCause,
}
