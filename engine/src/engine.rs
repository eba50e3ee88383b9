use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_types::WeightsVersion;

use crate::adapters::adapter::Adapter;
use crate::adapters::lora::LoraOptions;
use crate::adapters::policy::Policy;
use crate::checkpoints::checkpoint::write_model;
use crate::checkpoints::tensor_files::{CONFIG, GENERATION_CONFIG, find_weights_but};
use crate::checkpoints::verification::verified;
use crate::engine_options::EngineOptions;
use crate::error::EngineError;
use crate::grammars::vocabulary::Vocabulary;
use crate::model::config::ModelConfig;
use crate::model::layout::Layout;
use crate::model::memory::MemoryNeed;
use crate::model::model_head::{ModelHead, SCORE};
use crate::model::weights::{Model, Weights};
use crate::sampling::published::PublishedWeights;
use crate::sampling::sampler::EmbeddedSampler;
use crate::training::learner::EmbeddedLearner;

/// A model that is sampled from and trained on this machine.
#[derive(Debug)]
pub struct Engine {
    config: ModelConfig,
    memory_need: MemoryNeed,
    directory: PathBuf,
    sampler: Arc<EmbeddedSampler>,
    learner: Arc<EmbeddedLearner>,
    published: Arc<PublishedWeights>,
    threads: usize,
}

impl Engine {
    /// Opens a Hugging Face model directory: `config.json` of an [`Architecture`](crate::Architecture), and `model.safetensors` or its
    /// parts under `model.safetensors.index.json`, in f32, bf16 or f16. Where this program has written the directory, its
    /// files must be those that were written.
    ///
    /// Starts the sampler's thread, which ends when the last handle to the sampler is dropped.
    pub fn open(directory: impl AsRef<Path>, options: EngineOptions) -> Result<Self, EngineError> {
        Self::open_knowing(directory.as_ref(), None, options)
    }

    /// Opens a model directory as [`open`](Self::open) does. What its tokens stand for is known, so that answers can be
    /// kept to a schema or grammar, and end with a text.
    pub fn open_with_vocabulary(
        directory: impl AsRef<Path>,
        vocabulary: Vocabulary,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        Self::open_knowing(directory.as_ref(), Some(vocabulary), options)
    }

    fn open_knowing(
        directory: &Path,
        vocabulary: Option<Vocabulary>,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        verified(directory, || Self::open_unverified(directory, vocabulary, options))
    }

    fn open_unverified(
        directory: &Path,
        vocabulary: Option<Vocabulary>,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let written = ModelConfig::read(&directory.join(CONFIG))?;
        let config = ModelConfig { head: options.head.unwrap_or(written.head), ..written.clone() };
        // Nothing is made of what the configuration claims before the files hold as much, and the memory too.
        let layout = Layout::new(&config);
        // A fresh score is 0 whatever is read.
        let new: &[&str] = if config.head == written.head { &[] } else { &[SCORE] };
        let found = find_weights_but(new, directory, &layout)?;
        let need = MemoryNeed::of_matrices(&config, &layout, |place| found.precision(place));
        with_cache(need, &options).check_sampling()?;
        let model = Arc::new(Model::new(config).on(options.device.open()?));
        Self::start(directory, model, need, |model| found.read_weights(model), vocabulary, options)
    }

    /// A model with the weights that [`create_model`] would give it, without writing them. Its tokenizer's files, which
    /// checkpoints take along, are those in `directory`.
    pub fn with_initial_weights(
        directory: impl AsRef<Path>,
        config: &ModelConfig,
        seed: u64,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        config.check()?;
        let model = Arc::new(Model::new(config.clone()).on(options.device.open()?));
        let need = MemoryNeed::of(config, 0);
        Self::start(directory.as_ref(), model, need, |model| Ok(Weights::initial(model, seed)), None, options)
    }

    fn start(
        directory: &Path,
        model: Arc<Model>,
        need: MemoryNeed,
        weights: impl FnOnce(Arc<Model>) -> Result<Weights, EngineError>,
        vocabulary: Option<Vocabulary>,
        options: EngineOptions,
    ) -> Result<Self, EngineError> {
        let EngineOptions { threads, queue_limit, max_batch, .. } = options;
        for (name, value) in [("threads", threads), ("queue_limit", queue_limit), ("max_batch", max_batch)] {
            if value == 0 {
                return Err(EngineError::Request { message: format!("the engine's option {name} is 0") });
            }
        }
        let memory_need = with_cache(need, &options);
        memory_need.check_sampling()?;
        let config = model.config.clone();
        let policy = Policy::of(Arc::new(weights(model)?));
        policy.weights.send_to_device()?;
        let published = Arc::new(PublishedWeights::new(WeightsVersion(0), policy.clone()));
        let sampler = Arc::new(EmbeddedSampler::start(published.clone(), vocabulary.map(Arc::new), options)?);
        let learner = EmbeddedLearner::new(policy, threads, directory.to_path_buf(), Some(published.clone()));
        let (directory, learner) = (directory.to_path_buf(), Arc::new(learner));
        Ok(Self { config, memory_need, directory, sampler, learner, published, threads })
    }

    /// The model's dimensions.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The directory that it was opened from.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Refuses, with the sum of bytes, if all weights cannot be trained in the memory that is available now. It is to be
    /// asked before anything is trained.
    pub fn check_training_memory(&self) -> Result<(), EngineError> {
        self.memory_need.check_training()?;
        self.weights().check_device_memory(1)
    }

    /// The weights that are sampled from now, beside the adapter if there is one.
    pub(crate) fn weights(&self) -> Arc<Weights> {
        self.published.current().policy.weights.clone()
    }

    /// The half that samples.
    pub fn sampler(&self) -> Arc<EmbeddedSampler> {
        self.sampler.clone()
    }

    /// The half that learns. It trains what was opened; its weights reach the sampler when they are published.
    pub fn learner(&self) -> Arc<EmbeddedLearner> {
        self.learner.clone()
    }

    /// Another half that learns: a fresh adapter over the weights that are sampled from now, which stay as they are and
    /// are shared with the sampler. It reaches the sampler when it is published. Refused, with the sum of bytes, if it
    /// cannot be trained in the memory that is available now.
    pub fn lora_learner(&self, options: &LoraOptions) -> Result<Arc<EmbeddedLearner>, EngineError> {
        let (weights, source) = (self.weights(), self.directory.clone());
        if self.config.head == ModelHead::Score {
            let message = "its head is a score, which is trained with all weights".to_owned();
            return Err(EngineError::Adapter { message });
        }
        let adapter = Adapter::begin(&self.config, options, self.memory_need)?;
        let policy = Policy { weights, adapter: Some(Arc::new(adapter)) };
        Ok(Arc::new(EmbeddedLearner::new(policy, self.threads, source, Some(self.published.clone()))))
    }
}

/// Writes a new model directory (created; must not exist yet) with fresh weights: `config.json`,
/// `generation_config.json` and `model.safetensors`. Same dimensions and seed: same bytes.
///
/// The tokenizer is the caller's to add. `eos_token_id` and its like in `config.other` go into
/// `generation_config.json` too.
pub fn create_model(directory: impl AsRef<Path>, config: &ModelConfig, seed: u64) -> Result<(), EngineError> {
    config.check()?;
    let weights = Weights::initial(Arc::new(Model::new(config.clone())), seed);
    let tokens = ["bos_token_id", "eos_token_id", "pad_token_id"];
    let known = tokens.iter().filter_map(|name| Some((name.to_string(), config.other.get(*name)?.clone())));
    let generation_config = serde_json::Value::Object(known.collect()).to_string();
    write_model(directory.as_ref(), &weights, (GENERATION_CONFIG, &generation_config))
}

fn with_cache(need: MemoryNeed, options: &EngineOptions) -> MemoryNeed {
    MemoryNeed { prefix_cache: options.prefix_cache_bytes as u64, ..need }
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;

    use super::*;
    use crate::checkpoints::tensor_files::{Content, Written, read_weights, write_tensors, written_tensors};
    use crate::model::element_type::ElementType;
    use crate::model::layout::Layout;
    use crate::model::weights::write_initial;
    use crate::test_models::tiny_config;

    type Tensors<'a> = Vec<(String, Written<'a>)>;

    fn values(directory: &Path, config: &ModelConfig) -> Result<Vec<f32>, EngineError> {
        read_weights(directory, &Layout::new(config))
    }

    #[test]
    fn a_new_model_is_read_back_and_the_same_seed_gives_the_same_bytes() {
        let home = tempfile::tempdir().unwrap();
        for tie_word_embeddings in [true, false] {
            let config = ModelConfig { tie_word_embeddings, ..tiny_config() };
            let path = |name: &str| home.path().join(format!("{name}-{tie_word_embeddings}"));
            for (name, seed) in [("first", 1), ("again", 1), ("other", 2)] {
                create_model(path(name), &config, seed).unwrap();
            }
            assert_eq!(ModelConfig::read(&path("first").join(CONFIG)).unwrap(), config);
            let weights = |name| std::fs::read(path(name).join("model.safetensors")).unwrap();
            assert_eq!(weights("first"), weights("again"));
            assert_ne!(weights("first"), weights("other"));
            let layout = Layout::new(&config);
            let mut expected = vec![0.0; layout.length];
            write_initial(&config, &layout, 1, &mut expected);
            assert_eq!(values(&path("first"), &config).unwrap(), expected);
        }
    }

    #[test]
    fn weights_in_parts_and_in_half_precision_are_read() {
        let home = tempfile::tempdir().unwrap();
        let config = tiny_config();
        let layout = Layout::new(&config);
        let values_written: Vec<f32> = (0..layout.length).map(|at| (at % 64) as f32 / 8.0).collect();
        let elements = [ElementType::F32, ElementType::Bf16, ElementType::F16];
        let mut tensors: Vec<_> = (layout.tensors.iter().zip(elements.into_iter().cycle()))
            .flat_map(|(tensor, elements)| written_tensors(std::slice::from_ref(tensor), "", &values_written, elements))
            .collect();
        let later = tensors.split_off(5);
        let mut map = serde_json::Map::new();
        for (file, part) in [("a.safetensors", tensors), ("b.safetensors", later)] {
            map.extend(part.iter().map(|(name, _)| (name.clone(), file.into())));
            write_tensors(&home.path().join(file), part).unwrap();
        }
        let index = serde_json::json!({"metadata": {}, "weight_map": map});
        std::fs::write(home.path().join("model.safetensors.index.json"), index.to_string()).unwrap();
        assert_eq!(values(home.path(), &config).unwrap(), values_written);
    }

    #[test]
    fn a_tensor_that_is_missing_unknown_or_misshapen_is_refused_by_name() {
        let config = tiny_config();
        let layout = Layout::new(&config);
        let refused = |change: fn(&mut Tensors<'_>)| {
            let home = tempfile::tempdir().unwrap();
            let zeros = vec![0.0; layout.length];
            let mut tensors = written_tensors(&layout.tensors, "", &zeros, ElementType::F32);
            tensors.sort_by_key(|(name, _)| !name.contains("embed_tokens"));
            change(&mut tensors);
            write_tensors(&home.path().join("model.safetensors"), tensors).unwrap();
            let error = values(home.path(), &config).unwrap_err();
            let EngineError::Tensor { name, message, .. } = error else { panic!("{error}") };
            format!("{name}: {message}")
        };
        assert_eq!(refused(|tensors| drop(tensors.remove(0))), "model.embed_tokens.weight: it is missing");
        assert_eq!(
            refused(|tensors| tensors[1].0 = "model.bias".into()),
            "model.bias: the model has no such tensor, or it is there twice"
        );
        assert_eq!(
            refused(|tensors| tensors[0].1.shape.reverse()),
            "model.embed_tokens.weight: its shape is [20, 37], but must be [37, 20]"
        );
        let eighth = |tensors: &mut Tensors<'_>| {
            tensors[0].1.dtype = Dtype::I8;
            tensors[0].1.content = Content::Bytes(vec![0; 37 * 20]);
        };
        assert_eq!(refused(eighth), "model.embed_tokens.weight: elements of type I8 are not supported");
    }

    #[test]
    fn a_file_that_is_no_model_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("model");
        create_model(&directory, &tiny_config(), 1).unwrap();
        assert!(matches!(create_model(&directory, &tiny_config(), 1), Err(EngineError::Io { .. })));
        std::fs::write(directory.join("model.safetensors"), "no").unwrap();
        // As of a directory from elsewhere, which has no list of digests.
        std::fs::remove_file(directory.join("fulgurite.sha256")).unwrap();
        let error = Engine::open(&directory, EngineOptions::default()).unwrap_err();
        assert!(matches!(error, EngineError::Malformed { .. }), "{error}");
        assert!(Engine::open(home.path(), EngineOptions::default()).is_err());
    }
}
