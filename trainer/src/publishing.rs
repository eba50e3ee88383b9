//! What agents are told of the policy: a `proxy_llm` resource, Agent-lightning's form for a model behind a proxy, which
//! its runners turn into the base URL of each attempt.

use std::sync::Arc;

use fulgurite_backends::Learner;
use fulgurite_types::WeightsVersion;
use serde_json::{Map, Value, json};

use crate::weights::{DigestingLearner, RunWeights, StartName};
use crate::{Record, TrainError};

/// The name under which Agent-lightning's examples look for the model that is trained.
const RESOURCE_NAME: &str = "main_llm";

/// Where agents find the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyEndpoint {
    /// Base URL of the OpenAI API, with `/v1`.
    pub url: String,
    /// What they send as `model`.
    pub model: String,
    /// What they send as their key, if one is needed.
    pub api_key: Option<String>,
}

/// The resources of one version of the weights, so that a rollout's record says which policy it was made for.
pub(crate) fn resources_id(run_id: &str, weights_version: u64) -> String {
    format!("{run_id}-weights-{weights_version}")
}

/// What agents are told of a policy.
#[derive(Clone)]
pub(crate) struct PolicyResource {
    pub(crate) endpoint: PolicyEndpoint,
    /// What agents are told to send with their calls.
    pub(crate) sampling_parameters: Map<String, Value>,
}

impl PolicyResource {
    /// Stores the resource of one version of the weights, for rollouts that are enqueued from now on.
    pub(crate) async fn store(&self, record: &dyn Record, run_id: &str, version: u64) -> Result<(), TrainError> {
        let resource = json!({
            "resource_type": "proxy_llm",
            "endpoint": self.endpoint.url,
            "model": self.endpoint.model,
            "api_key": self.endpoint.api_key,
            "sampling_parameters": self.sampling_parameters,
        });
        let resources = Map::from_iter([(RESOURCE_NAME.to_owned(), resource)]);
        record.update_resources(&resources_id(run_id, version), resources).await?;
        Ok(())
    }
}

/// What the start of a run does with the weights that are behind its model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightsAtStart {
    /// Puts the run's there: the model is of this process, so that nobody else's can be.
    Publish,
    /// Puts the run's in the place of those that a server has.
    Replace,
    /// Leaves them as they are until the next update.
    Keep,
    /// Leaves them as they are until the run has made as many updates as they have: they are its own, and newer than its
    /// checkpoint.
    Hold(HeldWeights),
}

/// Weights of a run that are behind its model and newer than the checkpoint that it goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldWeights {
    /// Updates of the run behind them.
    pub step: u64,
    /// What their tokens are recorded with.
    pub version: u64,
    /// Updates that they may be away from the learner's: what is farther away samples nothing that can be learnt from.
    pub max_distance: u64,
}

/// Puts weights behind the model that a run trains.
pub(crate) struct Publisher {
    pub(crate) resource: PolicyResource,
    /// The run's weights by their names.
    pub(crate) weights: RunWeights,
    /// The run's learner, with the digest of what it was given.
    pub(crate) learner: Arc<DigestingLearner>,
    pub(crate) at_start: WeightsAtStart,
}

impl Publisher {
    /// By which name the start goes where it is put behind the model.
    pub(crate) fn start_name(&self) -> StartName {
        match self.at_start {
            WeightsAtStart::Publish | WeightsAtStart::Keep | WeightsAtStart::Hold(_) => StartName::Files,
            WeightsAtStart::Replace => StartName::Run,
        }
    }

    /// Whether newer weights of the run stay behind the model, now that the learner has made `step` updates.
    pub(crate) fn holds(&self, step: u64) -> bool {
        let WeightsAtStart::Hold(held) = self.at_start else { return false };
        let distance = self.weights.distances().of_version(held.version);
        step < held.step && distance.is_some_and(|distance| distance <= held.max_distance)
    }

    /// Puts what the learner has behind the model, as the weights of this version.
    pub(crate) async fn publish(&self, record: &dyn Record, run_id: &str, version: u64) -> Result<(), TrainError> {
        self.learner.publish_weights(WeightsVersion(version)).await?;
        self.resource.store(record, run_id, version).await
    }
}
