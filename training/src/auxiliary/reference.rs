//! The model that a run is held against, where that is another than the one that it began with.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_backends::{DigestingWriter, file_digest};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_roles::{self, reference_key, reference_name};
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_engine::Engine;
use fulgurite_lab::records::run_files::model_path;
use fulgurite_renderers::Renderer;
use fulgurite_trainer::Reference;

use crate::models::loaded_model::LoadedModel;
use crate::models::model_directory::model_directory;
use crate::notices::Notices;

/// A reference, for as long as it is asked.
pub(crate) struct ReferenceModel(Option<Engine>);

impl ReferenceModel {
    /// Opens the model that the config names.
    ///
    /// # Errors
    /// As [`model_roles::reference`], and if its tokenizer is not that of what is trained.
    pub(crate) fn open(loaded: &LoadedConfig, trained: &Arc<dyn Renderer>, notices: &dyn Notices) -> Result<Self> {
        let config = &loaded.config;
        let Some(entry) = model_roles::reference(config)? else { return Ok(Self(None)) };
        let place = reference_name(config).map_or("", |(_, place)| place);
        let (name, key) = (entry.name.as_str(), || reference_key(place, &entry.name));
        let path = model_directory(&model_path(loaded, entry), notices).with_context(key)?;
        let model = LoadedModel::open(name, &path, entry.renderer(), config.engine.options()).with_context(key)?;
        if model.served.renderer.tokenizer().fingerprint() != trained.tokenizer().fingerprint() {
            bail!("{}: its tokenizer is not that of the model that is trained, so that their tokens differ", key());
        }
        Ok(Self(Some(model.engine)))
    }

    /// What a run is given.
    pub(crate) fn reference(&self) -> Reference {
        match &self.0 {
            Some(engine) => Reference::Model(engine.learner()),
            None => Reference::Start,
        }
    }

    /// What a run's checkpoints call it: its model, and a digest of its weights where they are in this process.
    ///
    /// # Errors
    /// If the weights cannot be read.
    pub(crate) fn name(
        &self,
        loaded: &LoadedConfig,
        trained: &ModelEntry,
        trained_directory: &Path,
        notices: &dyn Notices,
    ) -> Result<String> {
        let (entry, directory) = match model_roles::reference(&loaded.config)? {
            Some(entry) => (entry, model_directory(&model_path(loaded, entry), notices)?),
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
        let start = entry.adapter_sha256.as_ref().filter(|_| entry.adapter.is_some());
        let start = start.map_or(String::new(), |digest| format!(" and the adapter {digest}"));
        Ok(format!("`{}` with the weights {}{start}", entry.name, digest.finish().1))
    }
}
