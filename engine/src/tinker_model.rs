//! The embedded models as a Tinker server has them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_backends::{
    BackendError, ForwardBackward, Learner, LossFunction, PromptQuestions, PromptScores, SampleRequest, SampleStream,
    Sampler,
};
use fulgurite_tinker::server::{FileBeginning, HostedLearner, HostedModel, HostedWeights, ModelFacts};
use fulgurite_tinker::wire::LoraConfig;
use fulgurite_types::{Datum, WeightsVersion};
use serde_json::Value;

use crate::adapters::lora::LoraOptions;
use crate::checkpoints::adapter_archive::beginnings_for_tinkers_tools;
use crate::checkpoints::checkpoint::write_weights_for_tinkers_tools;
use crate::checkpoints::tensor_files::{CONFIG, GENERATION_CONFIG};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::model::config::ModelConfig;
use crate::model::lora_module::LoraModule;
use crate::model::weights::Weights;
use crate::sampling::published::WeightsSnapshot;
use crate::sampling::sampler::EmbeddedSampler;
use crate::training::learner::EmbeddedLearner;

/// A model of an engine, for clients of the Tinker API. Texts can end an answer only if the engine was opened with the
/// model's vocabulary.
#[derive(Debug)]
pub struct EmbeddedTinkerModel {
    facts: ModelFacts,
    sampler: Arc<EmbeddedSampler>,
    /// As the model was opened: what adapters stand beside, whatever is put behind the sampler.
    weights: Arc<Weights>,
    /// The same, to be sampled from.
    opened: Arc<SampledSnapshot>,
}

impl EmbeddedTinkerModel {
    /// The model of an engine. Fails if its directory does not name its end-of-text token.
    pub fn new(engine: &Engine) -> Result<Self, EngineError> {
        let (directory, config, sampler) = (engine.directory(), engine.config(), engine.sampler());
        let directory = std::fs::canonicalize(directory).map_err(EngineError::io("find", directory))?;
        let facts = ModelFacts {
            architecture: config.architecture.name().to_owned(),
            hidden_size: config.hidden_size,
            context_length: config.max_position_embeddings,
            vocabulary_size: config.vocab_size,
            end_tokens: end_tokens(&directory, config)?,
            queue_limit: sampler.queue_limit(),
            directory,
        };
        let opened = Arc::new(SampledSnapshot { sampler: sampler.clone(), snapshot: sampler.snapshot() });
        Ok(Self { facts, sampler, weights: engine.weights(), opened })
    }
}

impl HostedModel for EmbeddedTinkerModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn sampler(&self) -> Arc<dyn Sampler> {
        self.sampler.clone()
    }

    fn opened(&self) -> Arc<dyn HostedWeights> {
        self.opened.clone()
    }

    fn read_weights(&self, directory: &Path) -> Result<Arc<dyn HostedWeights>, BackendError> {
        let snapshot = WeightsSnapshot::read(directory, &self.weights, WeightsVersion::default())?;
        Ok(Arc::new(SampledSnapshot { sampler: self.sampler.clone(), snapshot }))
    }

    fn beginnings_for_tools(&self, directory: &Path) -> Result<Vec<FileBeginning>, BackendError> {
        let layout = &self.weights.model.layout;
        match layout.head == layout.embedding {
            true => Ok(beginnings_for_tinkers_tools(directory)?),
            false => Ok(Vec::new()),
        }
    }

    fn begin_training(
        &self,
        adapter: Option<&LoraConfig>,
        threads: usize,
    ) -> Result<Box<dyn HostedLearner>, BackendError> {
        let (weights, directory) = (&self.weights, &self.facts.directory);
        let learner = match adapter {
            Some(config) => EmbeddedLearner::over(weights.clone(), &lora_options(config), threads, directory)?,
            None => EmbeddedLearner::open(directory, threads)?,
        };
        Ok(Box::new(TrainingRun { learner, sampler: self.sampler.clone(), source: directory.clone() }))
    }
}

/// Weights, and the sampler in whose batch they are sampled from.
#[derive(Debug)]
struct SampledSnapshot {
    sampler: Arc<EmbeddedSampler>,
    snapshot: WeightsSnapshot,
}

#[async_trait]
impl HostedWeights for SampledSnapshot {
    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        self.sampler.sample_from(&self.snapshot, request).await
    }

    fn score_prompt(&self, prompt: &[u32], questions: PromptQuestions<'_>) -> Result<PromptScores, BackendError> {
        self.snapshot.score_prompt(prompt, questions)
    }

    fn publish(&self, version: WeightsVersion) {
        self.sampler.publish(&self.snapshot, version);
    }
}

/// A learner, and the sampler that its snapshots are sampled by.
struct TrainingRun {
    learner: EmbeddedLearner,
    sampler: Arc<EmbeddedSampler>,
    /// The base's directory.
    source: PathBuf,
}

#[async_trait]
impl HostedLearner for TrainingRun {
    fn learner(&self) -> &dyn Learner {
        &self.learner
    }

    async fn forward_backward_with_all_logprobs(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
    ) -> Result<ForwardBackward, BackendError> {
        self.learner.forward_backward_with_all_logprobs(data, loss).await
    }

    async fn forward_with_loss(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.learner.forward_with_loss(data, loss).await
    }

    async fn drop_gradient(&self) -> Result<(), BackendError> {
        self.learner.drop_gradient().await
    }

    async fn load_weights(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.load_weights(directory).await
    }

    async fn export_weights(&self, directory: &Path) -> Result<(), BackendError> {
        let WeightsSnapshot(published) = self.learner.snapshot(WeightsVersion::default()).await?;
        let (directory, source) = (directory.to_path_buf(), self.source.clone());
        let write = move || write_weights_for_tinkers_tools(&directory, &source, &published.policy);
        let panicked = |error: tokio::task::JoinError| EngineError::Panicked { message: error.to_string() };
        Ok(tokio::task::spawn_blocking(write).await.map_err(panicked)??)
    }

    async fn snapshot(&self) -> Result<Arc<dyn HostedWeights>, BackendError> {
        let snapshot = self.learner.snapshot(WeightsVersion::default()).await?;
        Ok(Arc::new(SampledSnapshot { sampler: self.sampler.clone(), snapshot }))
    }
}

/// The end-of-text tokens of a model's directory.
fn end_tokens(directory: &Path, config: &ModelConfig) -> Result<Vec<u32>, EngineError> {
    let path = directory.join(GENERATION_CONFIG);
    let stated = match path.exists() {
        true => {
            let text = std::fs::read(&path).map_err(EngineError::io("read", &path))?;
            let malformed =
                |error: serde_json::Error| EngineError::Malformed { path: path.clone(), message: error.to_string() };
            serde_json::from_slice::<Value>(&text).map_err(malformed)?["eos_token_id"].clone()
        }
        false => Value::Null,
    };
    let stated = if stated.is_null() { config.other.get("eos_token_id").cloned().unwrap_or_default() } else { stated };
    let all = if let Value::Array(all) = stated { all } else { Vec::from([stated]) };
    let token = |id: &Value| match id.as_u64().and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok(id),
        None => Err(EngineError::Malformed {
            path: directory.join(CONFIG),
            message: format!("eos_token_id is {id}, but must be a token's id or a list of them"),
        }),
    };
    all.iter().filter(|id| !id.is_null()).map(token).collect()
}

/// The adapter that a client requests, as the engine's options.
fn lora_options(config: &LoraConfig) -> LoraOptions {
    let seed = config.seed.unwrap_or_default();
    LoraOptions { modules: modules(config), ..LoraOptions::new(config.rank as usize, seed) }
}

fn modules(config: &LoraConfig) -> BTreeSet<LoraModule> {
    let attention = config.train_attn.then_some(LoraModule::ATTENTION).into_iter().flatten();
    let feed_forward = config.train_mlp.then_some(LoraModule::FEED_FORWARD).into_iter().flatten();
    attention.chain(feed_forward).chain(config.train_unembed.then_some(LoraModule::Head)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: LoraConfig =
        LoraConfig { rank: 4, seed: Some(7), train_unembed: false, train_mlp: true, train_attn: true };

    #[test]
    fn what_is_asked_for_is_what_is_trained() {
        let options = lora_options(&CONFIG);
        assert_eq!((options.rank, options.seed, options.alpha), (4, 7, 32.0));
        assert_eq!(options.modules, LoraModule::ALL[..7].iter().copied().collect());
        let head = LoraConfig { train_unembed: true, train_mlp: false, train_attn: false, ..CONFIG };
        assert_eq!(lora_options(&head).modules, [LoraModule::Head].into());
    }
}
