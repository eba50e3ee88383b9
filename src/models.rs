//! The models that `serve` serves: in this process, or at remote hosts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fulgurite_backends::{
    BackendError, Learner, LlamaCppSampler, PublishingLearner, RemoteOptions, ReplicaOptions, Replicas, Sampler,
    SglangSampler, VllmSampler,
};
use fulgurite_engine::Engine;
use fulgurite_proxy::{SampledModel, ServedModel};
use serde_json::Value;

use crate::model_config::{Backend, ModelEntry};
use crate::server::LoadedModel;

/// How long a remote host may be silent in the middle of a request.
const SILENCE_LIMIT: Duration = Duration::from_secs(600);

/// A model that is served.
pub struct OpenModel {
    /// As agents know it.
    pub served: ServedModel,
    /// Where it is sampled if not in this process, for people.
    pub remote: Option<String>,
    /// Samples as long as it is kept.
    _engine: Option<Engine>,
}

impl OpenModel {
    /// Opens what `entry` says, its path seen from `directory`. Remote hosts are looked at when they are first needed,
    /// so that they may be down.
    pub fn open(entry: &ModelEntry, directory: &Path) -> Result<Self> {
        let path = directory.join(&entry.path);
        if entry.backend == Backend::Embedded {
            let LoadedModel { served, engine } = LoadedModel::open(&entry.name, &path, &entry.renderer)?;
            let served = ServedModel::Sampled(served);
            return Ok(Self { served, remote: None, _engine: Some(engine) });
        }
        let model = || format!("model `{}`", entry.name);
        let renderer = fulgurite_renderers::open_renderer(&path, &entry.renderer).with_context(model)?;
        let vocabulary_size = vocabulary_size(&path, renderer.tokenizer().vocabulary_size()).with_context(model)?;
        let sampler = Arc::new(remote(entry, vocabulary_size).with_context(model)?);
        let served = ServedModel::Sampled(SampledModel { name: entry.name.clone(), renderer, sampler });
        let place =
            format!("{} at {}, connected to when it is first called", entry.backend.name(), entry.urls.join(", "));
        Ok(Self { served, remote: Some(place), _engine: None })
    }
}

/// A model that this process trains, sampled here or at remote hosts.
pub struct TrainedModel {
    /// As agents know it.
    pub served: SampledModel,
    /// What trains it, and puts new weights behind whoever samples.
    pub learner: Arc<dyn Learner>,
    /// Works as long as it is kept.
    _engine: Engine,
}

impl TrainedModel {
    /// Opens the weights in `path`. Those of a model that is sampled at remote hosts are handed to them through
    /// directories in `published`.
    pub fn open(entry: &ModelEntry, path: &Path, published: PathBuf) -> Result<Self> {
        let LoadedModel { mut served, engine } = LoadedModel::open(&entry.name, path, &entry.renderer)?;
        let mut learner: Arc<dyn Learner> = engine.learner();
        if entry.backend != Backend::Embedded {
            let vocabulary_size = engine.config().vocab_size;
            let hosts = remote(entry, vocabulary_size).with_context(|| format!("model `{}`", entry.name))?;
            served.sampler = Arc::new(hosts);
            learner = Arc::new(PublishingLearner::new(learner, served.sampler.clone(), published));
        }
        Ok(Self { served, learner, _engine: engine })
    }
}

/// The hosts of a remote model as one.
fn remote(entry: &ModelEntry, vocabulary_size: usize) -> Result<Replicas> {
    let key = |variable: &String| {
        std::env::var(variable).map_err(|error| anyhow!("the environment variable {variable} (api_key_env): {error}"))
    };
    let api_key = entry.api_key_env.as_ref().map(key).transpose()?;
    let mut hosts = Vec::new();
    for url in &entry.urls {
        let options = RemoteOptions {
            url: url.clone(),
            model: entry.name.clone(),
            vocabulary_size,
            api_key: api_key.clone(),
            silence_limit: SILENCE_LIMIT,
            changeover: entry.changeover,
        };
        hosts.push((url.clone(), sampler(entry.backend, &options)?));
    }
    let (model, max_concurrency) = (entry.name.clone(), entry.max_concurrency);
    let options = ReplicaOptions { model, max_concurrency, ..ReplicaOptions::default() };
    Ok(Replicas::new(hosts, &options))
}

fn sampler(backend: Backend, options: &RemoteOptions) -> Result<Arc<dyn Sampler>, BackendError> {
    Ok(match backend {
        Backend::Vllm => Arc::new(VllmSampler::new(options)?),
        Backend::Sglang => Arc::new(SglangSampler::new(options)?),
        Backend::LlamaCpp => Arc::new(LlamaCppSampler::new(options)?),
        Backend::Embedded => {
            return Err(BackendError::Configuration { message: "an embedded model has no URL".to_owned() });
        }
    })
}

/// Ids that the model may sample: its embedding has often more rows than the tokenizer has tokens.
fn vocabulary_size(directory: &Path, of_tokenizer: usize) -> Result<usize> {
    let path = directory.join("config.json");
    if !path.exists() {
        return Ok(of_tokenizer);
    }
    let unreadable = || format!("cannot read {}", path.display());
    let text = std::fs::read_to_string(&path).with_context(unreadable)?;
    let config: Value = serde_json::from_str(&text).with_context(unreadable)?;
    let told = [&config["vocab_size"], &config["text_config"]["vocab_size"]].into_iter().find_map(Value::as_u64);
    Ok(told.map_or(of_tokenizer, |told| of_tokenizer.max(told as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_rows_of_an_embedding_are_tokens_too() {
        let directory = tempfile::tempdir().unwrap();
        let size = |of_tokenizer| vocabulary_size(directory.path(), of_tokenizer).map_err(|error| error.to_string());
        assert_eq!(size(291), Ok(291));
        for (config, expected) in [
            ("{\"vocab_size\": 320}", 320),
            ("{\"vocab_size\": 280}", 291),
            ("{\"text_config\": {\"vocab_size\": 300}}", 300),
            ("{}", 291),
        ] {
            std::fs::write(directory.path().join("config.json"), config).unwrap();
            assert_eq!(size(291), Ok(expected), "{config}");
        }
        std::fs::write(directory.path().join("config.json"), "{").unwrap();
        assert!(size(291).is_err_and(|error| error.starts_with("cannot read")));
    }
}
