use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::{
    BackendError, PromptQuestions, PromptScores, SampleRequest, SampleStream, Sampler, SamplerInfo,
};
use fulgurite_types::WeightsVersion;

use crate::error::EngineError;
use crate::sampling::published::WeightsSnapshot;
use crate::sampling::sampler::EmbeddedSampler;

/// Samples from an adapter over an embedded model, in one batch with the model's own requests.
pub(crate) struct AdapterSampler {
    pub(crate) sampler: Arc<EmbeddedSampler>,
    pub(crate) snapshot: WeightsSnapshot,
}

#[async_trait]
impl Sampler for AdapterSampler {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        self.sampler.info().await
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(self.snapshot.0.version)
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        self.sampler.sample_from(&self.snapshot, request).await
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        self.info().await?.check_scored(prompt)?;
        let (snapshot, prompt) = (self.snapshot.clone(), prompt.to_vec());
        let score =
            move || snapshot.score_prompt(&prompt, PromptQuestions { alternatives, ..PromptQuestions::default() });
        let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
        tokio::task::spawn_blocking(score).await.map_err(panicked)?
    }
}
