use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use fulgurite_backends::WeightsVersion;

use crate::checkpoint::write_model;
use crate::files::{CONFIG, GENERATION_CONFIG, read_weights};
use crate::sampler::Published;
use crate::weights::{Model, Weights, random_values};
use crate::{EmbeddedLearner, EmbeddedSampler, EngineError, ModelConfig};

/// How much of the machine an engine may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Threads of the sampler, and of the learner (which uses at most two). Changes no result.
    pub threads: usize,
    /// Requests that may wait for a place in the batch.
    pub queue_limit: usize,
    /// Requests that are sampled together.
    pub max_batch: usize,
}

impl Default for EngineOptions {
    /// All of the machine's cores.
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        Self { threads, queue_limit: 1024, max_batch: 64 }
    }
}

/// A model that is sampled from and trained on this machine.
#[derive(Debug)]
pub struct Engine {
    config: ModelConfig,
    directory: PathBuf,
    sampler: Arc<EmbeddedSampler>,
    learner: Arc<EmbeddedLearner>,
}

impl Engine {
    /// Opens a Hugging Face model directory: `config.json` of a `Qwen3ForCausalLM`, and `model.safetensors` or its
    /// parts under `model.safetensors.index.json`, in f32, bf16 or f16.
    ///
    /// Starts the sampler's thread, which ends when the last handle to the sampler is dropped.
    pub fn open(directory: impl AsRef<Path>, options: EngineOptions) -> Result<Self, EngineError> {
        let directory = directory.as_ref();
        let EngineOptions { threads, queue_limit, max_batch } = options;
        for (name, value) in [("threads", threads), ("queue_limit", queue_limit), ("max_batch", max_batch)] {
            if value == 0 {
                return Err(EngineError::Request { message: format!("the engine's option {name} is 0") });
            }
        }
        let config = ModelConfig::read(&directory.join(CONFIG))?;
        let model = Arc::new(Model::new(config.clone()));
        let values = read_weights(directory, &model.layout)?;
        let weights = Arc::new(Weights::new(model, values));
        let first = Published { version: WeightsVersion(0), weights: weights.clone() };
        let published = Arc::new(RwLock::new(Arc::new(first)));
        let sampler = EmbeddedSampler::start(published.clone(), threads, queue_limit, max_batch)?;
        let learner = EmbeddedLearner::new(weights, threads, directory.to_path_buf(), published);
        let directory = directory.to_path_buf();
        Ok(Self { config, directory, sampler: Arc::new(sampler), learner: Arc::new(learner) })
    }

    /// The model's dimensions.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The directory that it was opened from.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The half that samples.
    pub fn sampler(&self) -> Arc<EmbeddedSampler> {
        self.sampler.clone()
    }

    /// The half that learns. It trains what was opened; its weights reach the sampler when they are published.
    pub fn learner(&self) -> Arc<EmbeddedLearner> {
        self.learner.clone()
    }
}

/// Writes a new model directory (created; must not exist yet) with fresh weights: `config.json`,
/// `generation_config.json` and `model.safetensors`. Same dimensions and seed: same bytes.
///
/// The tokenizer is the caller's to add. `eos_token_id` and its like in `config.other` go into
/// `generation_config.json` too.
pub fn create_model(directory: impl AsRef<Path>, config: &ModelConfig, seed: u64) -> Result<(), EngineError> {
    config.check()?;
    let model = Model::new(config.clone());
    let weights = random_values(config, &model.layout, seed);
    let tokens = ["bos_token_id", "eos_token_id", "pad_token_id"];
    let known = tokens.iter().filter_map(|name| Some((name.to_string(), config.other.get(*name)?.clone())));
    let generation_config = serde_json::Value::Object(known.collect()).to_string();
    write_model(directory.as_ref(), &weights, &model, (GENERATION_CONFIG, &generation_config))
}
