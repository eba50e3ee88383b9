//! The model that a run is held against, where that is another than the one that it began with.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_backends::{DigestingWriter, file_digest};
use fulgurite_engine::Engine;
use fulgurite_renderers::Renderer;
use fulgurite_trainer::Reference;

use crate::config::declarations::{Config, LoadedConfig};
use crate::config::models::{Backend, ModelEntry};
use crate::models::gguf_cache::model_directory;
use crate::serve::server::LoadedModel;
use crate::train::run_files::model_path;

/// The name of the reference model, if the config names one, and the key that does.
fn name(config: &Config) -> Option<(&str, &'static str)> {
    let trainer = &config.trainer;
    match trainer.objective.compares() {
        true => Some((trainer.preference.reference.as_deref()?, "preference.reference")),
        false => Some((trainer.kl.as_ref()?.reference.as_deref()?, "kl.reference")),
    }
}

/// The model that the config names, if it names one.
///
/// # Errors
/// If there is no such model, or if it is not in this process.
pub fn entry(config: &Config) -> Result<Option<&ModelEntry>> {
    let Some((name, place)) = name(config) else { return Ok(None) };
    let key = |name: &str| key(place, name);
    let Some(entry) = config.models.iter().find(|model| model.name == name) else {
        bail!("{}: there is no such [[models]]", key(name))
    };
    if entry.backend != Backend::Embedded {
        bail!("{}: its backend is {}, and only an embedded model can be a reference", key(name), entry.backend.name());
    }
    Ok(Some(entry))
}

fn key(place: &str, name: &str) -> String {
    format!("[trainer] {place} = \"{name}\"")
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
        let place = name(config).map_or("", |(_, place)| place);
        let (name, key) = (entry.name.as_str(), || key(place, &entry.name));
        let path = model_directory(&model_path(loaded, entry)).with_context(key)?;
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

    /// What a run's checkpoints call it: its model, and a digest of its weights where they are in this process.
    ///
    /// # Errors
    /// If the weights cannot be read.
    pub fn name(&self, loaded: &LoadedConfig, trained: &ModelEntry, trained_directory: &Path) -> Result<String> {
        let (entry, directory) = match entry(&loaded.config)? {
            Some(entry) => (entry, model_directory(&model_path(loaded, entry))?),
            None => (trained, trained_directory.to_owned()),
        };
        if entry.backend == Backend::Tinker {
            return Ok(format!("`{}` as a service begins it", entry.base_model.as_deref().unwrap_or(&entry.name)));
        }
        let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>())
            .with_context(|| format!("cannot read {}", directory.display()))?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "safetensors"));
        files.sort();
        let mut digest = DigestingWriter::new(std::io::sink());
        for file in files {
            let own = file_digest(&file).with_context(|| format!("cannot read {}", file.display()))?;
            // A sink takes everything.
            let _ = writeln!(digest, "{own}");
        }
        Ok(format!("`{}` with the weights {}", entry.name, digest.finish().1))
    }
}
