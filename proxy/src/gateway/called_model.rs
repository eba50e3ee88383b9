use std::collections::BTreeSet;

use super::error::GatewayError;
use crate::models::pause_state::RETRY_AFTER_SECONDS;
use crate::models::registered_models::RegisteredModels;
use crate::models::served_model::{ServedModel, UpstreamModel};
use crate::models::served_models::ServedModels;

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
    pub(super) fn check_open(&self, models: &ServedModels) -> Result<(), GatewayError> {
        match self {
            ModelOfCall::Served(model) => check_open(models, model.name()),
            ModelOfCall::Registered(_) => Ok(()),
        }
    }

    /// Whether it knows the field that requests token ids: a registered model is a model server of Agent-lightning's.
    pub(super) fn reports_token_ids(&self) -> bool {
        !matches!(self, ModelOfCall::Served(ServedModel::Upstream(_)))
    }

    pub(super) fn is_registered(&self) -> bool {
        matches!(self, ModelOfCall::Registered(_))
    }

    /// The upstream that the call is forwarded to, if it is.
    pub(super) fn upstream(&self) -> Option<&UpstreamModel> {
        match self {
            ModelOfCall::Served(ServedModel::Upstream(model)) | ModelOfCall::Registered(model) => Some(model),
            ModelOfCall::Served(ServedModel::Sampled(_)) => None,
        }
    }
}

/// The model that answers a call: the one it names, or the only one, whatever the agent calls it.
pub(super) fn model_of_call(
    served: &ServedModels,
    registered: &RegisteredModels,
    named: Option<&str>,
) -> Result<ModelOfCall, GatewayError> {
    let registered = registered.models();
    let find = |name: &str| match served.get(name) {
        Some(model) => Some(ModelOfCall::Served(model.clone())),
        None => registered.get(name).cloned().map(ModelOfCall::Registered),
    };
    if let Some(model) = named.and_then(find) {
        return Ok(model);
    }
    let names: BTreeSet<&str> = served.names().chain(registered.keys()).map(String::as_str).collect();
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

/// Refuses calls to a model that is paused by itself.
fn check_open(models: &ServedModels, model: &str) -> Result<(), GatewayError> {
    let gate = models.gate(model)?.state();
    match gate.is_paused() {
        true => Err(GatewayError::Paused {
            retry_after_seconds: RETRY_AFTER_SECONDS,
            reason: gate.reason().map(str::to_owned),
        }),
        false => Ok(()),
    }
}
