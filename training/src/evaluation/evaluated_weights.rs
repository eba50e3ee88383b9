//! Which weights are scored, and how they are opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_backends::{FileDigests, Learner, NewWeights, WeightsSource, file_digest, listed_digests};
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::model_roles;
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_hub::{holds_adapter, must_exist};
use fulgurite_lab::records;
use fulgurite_lab::records::run_files::model_path;
use fulgurite_lab::runs::checkpoints::{choose, step_of};
use fulgurite_lab::runs::which_checkpoint::WhichCheckpoint;
use fulgurite_proxy::{SampledModel, ServedModel};
use fulgurite_trainer::Reporter;
use fulgurite_types::WeightsVersion;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::options::EvalOptions;
use crate::models::model_or_base::model_or_base;
use crate::models::open::{OpenModel, TrainedModel};
use crate::notices::Notices;

/// The weights that are scored.
pub struct EvaluatedWeights {
    /// As agents know the model.
    pub entry: ModelEntry,
    /// The same for the same weights.
    pub identity: String,
    /// What they are, for people.
    pub description: String,
    /// Updates that made them, as far as is known.
    pub step: u64,
    /// The model that the entry begins with, if its files are here.
    path: PathBuf,
    /// What was learnt on top of it.
    checkpoint: Option<PathBuf>,
}

/// A model that answers.
pub struct OpenWeights {
    /// As agents know it.
    pub served: ServedModel,
    /// Fingerprint of its tokenizer; empty if its calls are passed on.
    pub tokenizer: String,
    /// Works as long as it is kept.
    pub _learner: Option<(Arc<dyn Learner>, TrainedModel)>,
}

impl EvaluatedWeights {
    /// Those that the command line names.
    pub async fn choose(
        loaded: &LoadedConfig,
        options: &EvalOptions,
        reporter: &mut dyn Reporter,
        notices: &dyn Notices,
    ) -> Result<Self> {
        if let Some(path) = &options.checkpoint {
            return Self::of_checkpoint(loaded, path);
        }
        let named = options.model.as_deref();
        if let Some(path) = named.map(Path::new).filter(|path| path.exists()) {
            if holds_adapter(path) {
                return Self::of_checkpoint(loaded, path);
            }
            let mut entry = entry(loaded, None)?;
            entry.backend = Backend::Embedded;
            entry.urls.clear();
            let path = std::path::absolute(path).context("the working directory is gone")?;
            let (identity, description) = (weights_digest(&path)?, path.display().to_string());
            return Ok(Self { entry, identity, description, step: 0, path, checkpoint: None });
        }
        let entry = entry(loaded, named)?;
        let place = entry.urls.join(", ");
        if entry.backend != Backend::Embedded {
            let path = model_path(loaded, &entry);
            let identity = digest(&json!([entry.backend.name(), entry.urls, entry.name, entry.upstream_model]));
            let description = format!("{} at {place} ({})", entry.name, entry.backend.name());
            return Ok(Self { entry, identity, description, step: 0, path, checkpoint: None });
        }
        Self::before_training(loaded, entry, reporter, notices).await
    }

    /// Those of an embedded model of the config, as they are before anything is learnt.
    async fn before_training(
        loaded: &LoadedConfig,
        entry: ModelEntry,
        reporter: &mut dyn Reporter,
        notices: &dyn Notices,
    ) -> Result<Self> {
        let path = model_or_base(loaded, &entry, reporter, notices).await?;
        let (identity, description) = (weights_digest(&path)?, path.display().to_string());
        Ok(Self { entry, identity, description, step: 0, path, checkpoint: None })
    }

    /// Those that a run began with.
    pub async fn of_run_before_training(
        loaded: &LoadedConfig,
        reporter: &mut dyn Reporter,
        notices: &dyn Notices,
    ) -> Result<Self> {
        Self::before_training(loaded, entry(loaded, None)?, reporter, notices).await
    }

    /// Those of a checkpoint, or of the last one of a run, on top of the config's model.
    pub fn of_checkpoint(loaded: &LoadedConfig, path: &Path) -> Result<Self> {
        let entry = entry(loaded, None)?;
        let checkpoint = last_checkpoint(path)?;
        let step = step_of(&checkpoint).unwrap_or(0);
        let base = model_path(loaded, &entry);
        let mut identity = weights_digest(&checkpoint)?;
        if holds_adapter(&checkpoint) && entry.backend == Backend::Embedded {
            must_exist(&base).with_context(|| format!("model `{}`", entry.name))?;
            identity = digest(&json!([weights_digest(&base)?, identity, adapter_form(&checkpoint)?]));
        }
        let description = checkpoint.display().to_string();
        Ok(Self { entry, identity, description, step, path: base, checkpoint: Some(checkpoint) })
    }

    /// Opens them for agents to call.
    pub async fn open(&self, loaded: &LoadedConfig, directory: &Path, notices: &dyn Notices) -> Result<OpenWeights> {
        let mut entry = self.entry.clone();
        entry.path = self.path.clone();
        match &self.checkpoint {
            // An adapter, whoever trained it and whatever the config would train, over the config's model.
            Some(checkpoint) if entry.backend == Backend::Embedded && holds_adapter(checkpoint) => {
                let opened = open_over(&entry, checkpoint, WeightsVersion(self.step), &loaded.config, notices).await;
                let served = opened.with_context(|| format!("--checkpoint {}", checkpoint.display()))?;
                let tokenizer = served.renderer.tokenizer().fingerprint().to_owned();
                return Ok(OpenWeights { served: ServedModel::Sampled(served), tokenizer, _learner: None });
            }
            // A model directory in its own right.
            Some(checkpoint) if entry.backend == Backend::Embedded => entry.path = checkpoint.clone(),
            Some(checkpoint) => {
                let published = directory.join("published");
                let model = TrainedModel::open(&entry, &self.path, published, loaded)?;
                let opened = model.learner.load_checkpoint(checkpoint).await;
                opened.with_context(|| format!("--checkpoint {}", checkpoint.display()))?;
                model.learner.publish_weights(WeightsVersion(self.step)).await?;
                let tokenizer = model.served.renderer.tokenizer().fingerprint().to_owned();
                let served = ServedModel::Sampled(model.served.clone());
                return Ok(OpenWeights { served, tokenizer, _learner: Some((model.learner.clone(), model)) });
            }
            None => {}
        }
        let OpenModel { served, .. } = OpenModel::open(&entry, &loaded.directory, &loaded.config, notices)?;
        let tokenizer = match &served {
            ServedModel::Sampled(model) => model.renderer.tokenizer().fingerprint().to_owned(),
            ServedModel::Upstream(_) => String::new(),
        };
        Ok(OpenWeights { served, tokenizer, _learner: None })
    }
}

/// The model of an entry in this process, an adapter put over it.
pub async fn open_over(
    entry: &ModelEntry,
    adapter: &Path,
    version: WeightsVersion,
    config: &Config,
    notices: &dyn Notices,
) -> Result<SampledModel> {
    let OpenModel { served, .. } = OpenModel::open(entry, Path::new(""), config, notices)?;
    let ServedModel::Sampled(model) = served else { bail!("model `{}` is not sampled here", entry.name) };
    let source = WeightsSource::Adapter(adapter.to_path_buf());
    model.sampler.load_weights(&NewWeights { version, source }).await?;
    Ok(model)
}

/// The model of the config by this name, or the only one beside the reference.
fn entry(loaded: &LoadedConfig, name: Option<&str>) -> Result<ModelEntry> {
    let models = &loaded.config.models;
    let names = || models.iter().map(|model| format!("`{}`", model.name)).collect::<Vec<_>>().join(", ");
    if let Some(name) = name {
        let found = models.iter().find(|model| model.name == name);
        return found.cloned().with_context(|| {
            format!("--model {name}: there is no such file or directory, and no such [[models]]: there are {}", names())
        });
    }
    match model_roles::trainable_models(&loaded.config)?.as_slice() {
        [model] => Ok((*model).clone()),
        [] => bail!("an evaluation needs a [[models]], and there is none"),
        _ => bail!("there are several [[models]]: name one of {} by --model", names()),
    }
}

/// The checkpoint itself, or that of a run's final weights.
pub fn last_checkpoint(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).context("the working directory is gone")?;
    if !path.is_dir() {
        bail!("--checkpoint {}: there is no such directory", path.display());
    }
    if !records::is_run(&path) {
        return Ok(path);
    }
    let last = choose(&path, WhichCheckpoint::Final).map(|checkpoint| checkpoint.directory);
    last.with_context(|| format!("--checkpoint {}: this run has no checkpoint yet", path.display()))
}

/// What an adapter's configuration says, but where its base is.
fn adapter_form(directory: &Path) -> Result<Value> {
    let path = directory.join("adapter_config.json");
    let mut config: Value = serde_json::from_str(&fulgurite_engine::read_model_config(&path)?)
        .with_context(|| path.display().to_string())?;
    if let Some(fields) = config.as_object_mut() {
        fields.remove("base_model_name_or_path");
    }
    Ok(config)
}

/// Changes with the weights in a directory, or in a file.
pub fn weights_digest(path: &Path) -> Result<String> {
    let cannot = || format!("cannot read {}", path.display());
    if path.is_file() {
        return file_digest(path).with_context(cannot);
    }
    let mut digests: FileDigests = listed_digests(path).with_context(cannot)?.unwrap_or_default();
    digests.retain(|name, _| is_weights(name));
    if digests.is_empty() {
        for entry in std::fs::read_dir(path).with_context(cannot)? {
            let file = entry.with_context(cannot)?.path();
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if is_weights(&name) {
                digests.insert(name, file_digest(&file).with_context(cannot)?);
            }
        }
    }
    if digests.is_empty() {
        bail!("{} holds no weights (*.safetensors)", path.display());
    }
    Ok(digest(&json!(digests)))
}

fn is_weights(name: &str) -> bool {
    name.ends_with(".safetensors") || name.ends_with(".gguf") || name == "tinker_checkpoint.json"
}

/// Changes with a value.
pub fn digest(value: &Value) -> String {
    format!("{:x}", Sha256::digest(value.to_string()))
}
