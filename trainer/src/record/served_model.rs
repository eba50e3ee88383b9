//! A model that a server samples for its agents.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use fulgurite_backends::{BackendError, NewWeights, WeightsReceiver, WeightsSource};
use fulgurite_client::{PostedWeights, Server, ServerError};
use fulgurite_types::{PublicationCause, Replaces, WeightsId};
use serde_json::json;

/// The status by which a server refuses to replace weights.
const CONFLICT: u16 = 409;
/// The status by which a server refuses weights that it could not take later either.
const UNPROCESSABLE: u16 = 422;

/// A model that a server samples for its agents, behind which new weights are put: those of one run, each in the place of
/// those before.
pub struct RemotelyServedModel {
    server: Server,
    name: String,
    run_id: String,
    /// The weights that the run starts from, which its adapters are over.
    start: WeightsId,
    replaces: Mutex<Replaces>,
}

impl RemotelyServedModel {
    /// The model that agents call `name` at `server`, for the weights of run `run_id`, which starts from the weights `start`.
    /// The first ones take the place of `replaces`, each later ones that of those before them.
    pub fn new(
        server: Server,
        name: impl Into<String>,
        run_id: impl Into<String>,
        start: WeightsId,
        replaces: Replaces,
    ) -> Self {
        Self { server, name: name.into(), run_id: run_id.into(), start, replaces: Mutex::new(replaces) }
    }
}

#[async_trait]
impl WeightsReceiver for RemotelyServedModel {
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        let refused = |message: String| BackendError::Configuration { message };
        let source = serde_json::from_value(json!(weights.source)).map_err(|error| refused(error.to_string()))?;
        let replaces = *self.replaces.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, run_id, cause) = (weights.version, Some(self.run_id.clone()), PublicationCause::Update);
        let base = matches!(weights.source, WeightsSource::Adapter(_)).then_some(self.start);
        let posted = PostedWeights { version, source, base, run_id, replaces, cause };
        self.server.load_weights(&self.name, posted).await.map_err(|error| match error {
            ServerError::Refused { status: CONFLICT, message, .. } => BackendError::Superseded { message },
            ServerError::UnreadWeights { .. } | ServerError::Refused { status: UNPROCESSABLE, .. } => {
                BackendError::Unread { message: error.to_string() }
            }
            error => refused(error.to_string()),
        })?;
        *self.replaces.lock().unwrap_or_else(PoisonError::into_inner) = Replaces::Version(weights.version.0);
        Ok(())
    }
}
