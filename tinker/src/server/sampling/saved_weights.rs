use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_types::WeightsVersion;

use crate::server::base::TinkerBase;
use crate::wire::{CheckpointKind, CheckpointPath};
use async_trait::async_trait;
use fulgurite_backends::{
    BackendError, NewWeights, PromptScores, SampleRequest, SampleStream, Sampler, SamplerInfo, WeightsSource,
};

use crate::server::tinker_server::TinkerServer;

/// The sampler of a base model that also takes weights which training runs of this server have saved for sampling, by
/// their names (`tinker://...`): whoever trains over the Tinker API can put them behind the model that agents call.
pub struct SavedWeightsSampler {
    base: Arc<TinkerBase>,
    server: Arc<TinkerServer>,
}

impl SavedWeightsSampler {
    /// What samples the base model of that name, if the server has it.
    pub fn new(server: Arc<TinkerServer>, base_model: &str) -> Option<Self> {
        let base = server.base(base_model).ok()?;
        Some(Self { base, server })
    }

    /// Where weights are that were saved for sampling.
    fn directory(&self, path: &str) -> Result<PathBuf, BackendError> {
        let refuse = |message: String| BackendError::Configuration { message };
        let parsed: CheckpointPath = path.parse().map_err(|error| refuse(format!("{error}")))?;
        if parsed.kind != CheckpointKind::SamplerWeights {
            return Err(refuse(format!("`{path}` holds no weights to sample from")));
        }
        let registry = self.server.registry();
        let found = registry.checkpoints.get(&parsed.to_string());
        let found = found.ok_or_else(|| refuse(format!("`{path}` is not there, or was saved at another server")))?;
        if found.base_model != self.base.name {
            return Err(refuse(format!("`{path}` is of base model `{}`, not `{}`", found.base_model, self.base.name)));
        }
        Ok(self.server.state.resolve(&found.directory))
    }
}

#[async_trait]
impl Sampler for SavedWeightsSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        self.base.model.sampler().info().await
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        self.base.model.sampler().weights_version()
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        self.base.model.sampler().sample(request).await
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        self.base.model.sampler().score_prompt(prompt, alternatives).await
    }

    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        let WeightsSource::Kept(path) = &weights.source else {
            return self.base.model.sampler().load_weights(weights).await;
        };
        let saved = self.server.weights.get(&self.base.model, &self.directory(path)?).await?;
        saved.publish(weights.version);
        Ok(())
    }

    fn label_weights(&self, version: WeightsVersion) {
        self.base.model.sampler().label_weights(version);
    }

    fn takes_adapters(&self) -> bool {
        self.base.model.sampler().takes_adapters()
    }

    async fn with_adapter(self: Arc<Self>, directory: &Path) -> Result<Arc<dyn Sampler>, BackendError> {
        self.base.model.sampler().with_adapter(directory).await
    }

    async fn check_health(&self) -> Result<(), BackendError> {
        self.base.model.sampler().check_health().await
    }
}
