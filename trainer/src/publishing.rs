//! What agents are told of the policy: a `proxy_llm` resource, Agent-lightning's form for a model behind a proxy, which
//! its runners turn into the base URL of each attempt.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Record, TrainError};

/// Which new weights are put behind the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishRule {
    /// Those whose held-out score is not worse than that of the weights which are there: the 95% interval of the paired
    /// difference is not wholly on the worse side.
    NotWorse,
}

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

/// Tells agents of new weights.
pub(crate) struct Publisher {
    pub(crate) endpoint: PolicyEndpoint,
    /// What agents are told to send with their calls.
    pub(crate) sampling_parameters: Map<String, Value>,
}

impl Publisher {
    /// Stores the resource of one version of the weights, for rollouts that are enqueued from now on.
    pub(crate) async fn publish(&self, record: &dyn Record, run_id: &str, version: u64) -> Result<(), TrainError> {
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
