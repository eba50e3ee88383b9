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
use crate::train::run_files::model_path;

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
    /// The model that is trained, where it is a teacher too.
    own: Option<(String, Arc<dyn Sampler>)>,
    renderer: Arc<dyn Renderer>,
    options: Option<DistillationOptions>,
}

impl OpenTeachers {
    /// Opens the models that the config names. Remote ones are not looked at yet. A teacher of the name of what is `trained` is
    /// what samples it, `own`, with the weights of its last update.
    ///
    /// # Errors
    /// As [`entries`]; if the tokenizer of one is not that of what is trained; if one is what is trained, and it is not sampled in
    /// this process.
    pub fn open(
        loaded: &LoadedConfig,
        trained: &str,
        renderer: &Arc<dyn Renderer>,
        own: Option<&Arc<dyn Sampler>>,
    ) -> Result<Self> {
        let config = &loaded.config;
        let (mut models, mut followed) = (BTreeMap::new(), None);
        for entry in entries(config)? {
            let key = || key(&entry.name);
            if entry.name == trained {
                let Some(own) = own else {
                    bail!(
                        "{}: a teacher that is the trained model itself follows an on-policy run of one process: name another \
                         entry of [[models]], with the same path if it is to stay as it is now",
                        key()
                    )
                };
                followed = Some((entry.name.clone(), own.clone()));
                continue;
            }
            let path = model_path(loaded, entry);
            let model = ScoringModel::open(entry, &path, config).with_context(key)?;
            if model.renderer.tokenizer().fingerprint() != renderer.tokenizer().fingerprint() {
                bail!("{}: its tokenizer is not that of the model that is trained, so that their tokens differ", key());
            }
            models.insert(entry.name.clone(), model);
        }
        Ok(Self { models, own: followed, renderer: renderer.clone(), options: options(config).cloned() })
    }

    /// What a run is given.
    pub fn teachers(&self) -> Option<Teachers> {
        let options = self.options.clone()?;
        let sampler = |(name, model): (&String, &ScoringModel)| (name.clone(), model.sampler.clone());
        let samplers = self.models.iter().map(sampler).chain(self.own.clone()).collect();
        Some(Teachers { options, renderer: self.renderer.clone(), samplers })
    }
}
