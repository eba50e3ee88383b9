use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use fulgurite_backends::WeightsSource;
use fulgurite_types::WeightsVersion;

use crate::adapters::policy::Policy;
use crate::checkpoints::adapter_config::ADAPTER_CONFIG;
use crate::checkpoints::checkpoint::read_policy;
use crate::error::EngineError;
use crate::model::weights::Weights;

/// Weights that requests are sampled from.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) version: WeightsVersion,
    pub(crate) policy: Policy,
}

/// Weights that can be sampled from and scored under as long as they are kept, whatever a learner does meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct WeightsSnapshot(pub(crate) Arc<Published>);

impl WeightsSnapshot {
    /// The weights of a directory, of the model that `base` is of, or of the adapter over those that is there.
    pub(crate) fn read(directory: &Path, base: &Arc<Weights>, version: WeightsVersion) -> Result<Self, EngineError> {
        let source = match directory.join(ADAPTER_CONFIG).exists() {
            true => WeightsSource::Adapter(directory.to_path_buf()),
            false => WeightsSource::Model(directory.to_path_buf()),
        };
        let policy = read_policy(&source, base)?;
        Ok(Self(Arc::new(Published { version, policy })))
    }
}

/// The weights that the sampler gives to requests which arrive now. A change is atomic.
#[derive(Debug)]
pub(crate) struct PublishedWeights(RwLock<Arc<Published>>);

impl PublishedWeights {
    pub(crate) fn new(version: WeightsVersion, policy: Policy) -> Self {
        Self(RwLock::new(Arc::new(Published { version, policy })))
    }

    pub(crate) fn current(&self) -> Arc<Published> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, version: WeightsVersion, policy: Policy) {
        let next = Arc::new(Published { version, policy });
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = next;
    }
}
