//! The models whose logprobs a run learns from.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_backends::Sampler;
use fulgurite_renderers::Renderer;
use fulgurite_trainer::{DistillationOptions, ObjectiveName, Teachers};

use crate::config::declarations::{Config, LoadedConfig};
use crate::config::models::ModelEntry;
use crate::models::open::ScoringModel;
use crate::train::run_files::fill_seed;

/// What the config says of teachers, if the run has any.
fn options(config: &Config) -> Option<&DistillationOptions> {
    let has_teachers =
        matches!(config.trainer.objective, ObjectiveName::OnPolicyDistillation | ObjectiveName::OffPolicyDistillation);
    config.trainer.distillation.as_ref().filter(|_| has_teachers)
}

fn key(name: &str) -> String {
    format!("[trainer] distillation, teacher \"{name}\"")
}

/// The models that the config names as teachers.
///
/// # Errors
/// If there is no such model, or if its calls are passed on.
pub fn entries(config: &Config) -> Result<Vec<&ModelEntry>> {
    let names = options(config).map_or(BTreeSet::new(), DistillationOptions::teacher_names);
    let mut entries = Vec::with_capacity(names.len());
    for name in names {
        let Some(entry) = config.models.iter().find(|model| model.name == name) else {
            bail!("{}: there is no such [[models]]", key(name))
        };
        if entry.backend.upstream_dialect().is_some() {
            bail!(
                "{}: its backend is {}, which passes calls on and tells no logprobs of a prompt",
                key(name),
                entry.backend.name()
            );
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// Teachers, for as long as they are asked.
pub struct OpenTeachers {
    models: BTreeMap<String, ScoringModel>,
    renderer: Arc<dyn Renderer>,
    options: Option<DistillationOptions>,
}

impl OpenTeachers {
    /// Opens the models that the config names. Remote ones are not looked at yet.
    ///
    /// # Errors
    /// As [`entries`], and if the tokenizer of one is not that of what is trained.
    pub fn open(loaded: &LoadedConfig, trained: &Arc<dyn Renderer>) -> Result<Self> {
        let config = &loaded.config;
        let mut models = BTreeMap::new();
        for entry in entries(config)? {
            let key = || key(&entry.name);
            let path = loaded.resolve(&fill_seed(&entry.path, config.run.seed));
            let model = ScoringModel::open(entry, &path, config).with_context(key)?;
            if model.renderer.tokenizer().fingerprint() != trained.tokenizer().fingerprint() {
                bail!("{}: its tokenizer is not that of the model that is trained, so that their tokens differ", key());
            }
            models.insert(entry.name.clone(), model);
        }
        Ok(Self { models, renderer: trained.clone(), options: options(config).cloned() })
    }

    /// What a run is given.
    pub fn teachers(&self) -> Option<Teachers> {
        let options = self.options.clone()?;
        let sampler = |(name, model): (&String, &ScoringModel)| (name.clone(), model.sampler.clone());
        let samplers: BTreeMap<String, Arc<dyn Sampler>> = self.models.iter().map(sampler).collect();
        Some(Teachers { options, renderer: self.renderer.clone(), samplers })
    }
}
