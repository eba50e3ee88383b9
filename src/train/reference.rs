//! The model that a run is held against, where that is another than the one that it began with.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_engine::Engine;
use fulgurite_renderers::Renderer;
use fulgurite_trainer::Reference;

use crate::config::declarations::{Config, LoadedConfig};
use crate::config::models::{Backend, ModelEntry};
use crate::models::gguf_cache::model_directory;
use crate::serve::server::LoadedModel;
use crate::train::run_files::fill_seed;

/// The name of the reference model, if the config names one.
fn name(config: &Config) -> Option<&str> {
    config.trainer.kl.as_ref()?.reference.as_deref()
}

/// The model that the config names, if it names one.
///
/// # Errors
/// If there is no such model, or if it is not in this process.
pub fn entry(config: &Config) -> Result<Option<&ModelEntry>> {
    let Some(name) = name(config) else { return Ok(None) };
    let Some(entry) = config.models.iter().find(|model| model.name == name) else {
        bail!("{}: there is no such [[models]]", key(name))
    };
    if entry.backend != Backend::Embedded {
        bail!("{}: its backend is {}, and only an embedded model can be a reference", key(name), entry.backend.name());
    }
    Ok(Some(entry))
}

fn key(name: &str) -> String {
    format!("[trainer] kl.reference = \"{name}\"")
}

/// A reference, for as long as it is asked.
pub struct ReferenceModel(Option<Engine>);

impl ReferenceModel {
    /// Opens the model that the config names.
    ///
    /// # Errors
    /// As [`entry`], and if its tokenizer is not that of what is trained.
    pub fn open(loaded: &LoadedConfig, trained: &Arc<dyn Renderer>) -> Result<Self> {
        let config = &loaded.config;
        let Some(entry) = entry(config)? else { return Ok(Self(None)) };
        let (name, key) = (entry.name.as_str(), || key(&entry.name));
        let path = fill_seed(Path::new(&entry.path), config.run.seed);
        let path = model_directory(&loaded.resolve(&path)).with_context(key)?;
        let model = LoadedModel::open(name, &path, entry.renderer(), config.engine.options()).with_context(key)?;
        if model.served.renderer.tokenizer().fingerprint() != trained.tokenizer().fingerprint() {
            bail!("{}: its tokenizer is not that of the model that is trained, so that their tokens differ", key());
        }
        Ok(Self(Some(model.engine)))
    }

    /// What a run is given.
    pub fn reference(&self) -> Reference {
        match &self.0 {
            Some(engine) => Reference::Model(engine.learner()),
            None => Reference::Start,
        }
    }
}
