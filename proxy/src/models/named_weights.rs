use std::sync::Arc;

use fulgurite_api::Need;
use fulgurite_backends::{KeptModel, KeptWeights, KeptWeightsError};

use crate::error::ProxyError;
use crate::models::caller_key::CallerKey;

/// Weights that calls may name in the place of a model, and who may.
pub struct NamedWeights {
    /// Which there are.
    pub weights: Arc<dyn KeptWeights>,
    /// What such a call needs of its key.
    pub need: Need,
}

impl NamedWeights {
    /// The weights of that name; `None` if it is no name of weights.
    pub(crate) fn find(&self, name: &str) -> Result<Option<KeptModel>, ProxyError> {
        self.weights.find(name).map_err(|error| match error {
            KeptWeightsError::Invalid { message } => ProxyError::invalid("model", format!("model: {message}")),
            KeptWeightsError::Unknown { name, kept } => ProxyError::UnknownWeights { name, kept },
        })
    }

    /// The same, for who may. Others learn nothing of what there is.
    pub(crate) fn find_for(&self, key: &CallerKey, name: &str) -> Result<Option<KeptModel>, ProxyError> {
        match self.find(name) {
            Ok(None) => Ok(None),
            found => key.check(self.need).and(found),
        }
    }
}
