//! The models whose logprobs a run learns from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_backends::{Sampler, WeightsSource};
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::model_roles::{self, distillation, teacher_key};
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_lab::records::run_files::model_path;
use fulgurite_renderers::Renderer;
use fulgurite_trainer::{DistillationOptions, FollowingTeacher, Teachers};

use crate::models::open::ScoringModel;
use crate::notices::Notices;

/// Where in a run's directory the weights of a teacher are kept that follows the policy at a distance.
const FOLLOWING: &str = "teacher";

/// Teachers, for as long as they are asked.
pub(crate) struct OpenTeachers {
    models: BTreeMap<String, ScoringModel>,
    /// The model that is trained, where it is a teacher too.
    own: Option<(String, Arc<dyn Sampler>)>,
    /// The same, where it is one that stays as it is for some updates.
    following: Option<FollowingTeacher>,
    renderer: Arc<dyn Renderer>,
    options: Option<DistillationOptions>,
}

impl OpenTeachers {
    /// Opens the models that the config names. Remote ones are not looked at yet. A teacher of the name of what is `trained` is
    /// what samples it, `own`, with the weights of its last update, or, if it is refreshed more rarely, a model beside it whose
    /// weights are kept below the directory of the run.
    ///
    /// # Errors
    /// As [`model_roles::teachers`]; if the tokenizer of one is not that of what is trained; if one is what is trained, and it is not sampled in
    /// this process, or is to be refreshed and is not trained here; if none is, and is to be refreshed.
    pub(crate) fn open(
        loaded: &LoadedConfig,
        trained: &str,
        renderer: &Arc<dyn Renderer>,
        own: Option<(&Arc<dyn Sampler>, &Path)>,
        notices: &dyn Notices,
    ) -> Result<Self> {
        let config = &loaded.config;
        let (mut models, mut followed, mut following) = (BTreeMap::new(), None, None);
        let refresh_every = distillation(config).map_or(1, |options| options.refresh_every);
        for entry in model_roles::teachers(config)? {
            let key = || teacher_key(&entry.name);
            if entry.name == trained {
                let Some((own, run_directory)) = own else {
                    bail!(
                        "{}: a teacher that is the trained model itself follows an on-policy run of one process: name another \
                         entry of [[models]], with the same path if it is to stay as it is now",
                        key()
                    )
                };
                if refresh_every <= 1 {
                    followed = Some((entry.name.clone(), own.clone()));
                    continue;
                }
                let model = second_copy(loaded, entry, notices).with_context(key)?;
                following = Some(FollowingTeacher {
                    sampler: model.sampler.clone(),
                    directory: run_directory.join(FOLLOWING),
                    saved_as: saved_as(entry, config),
                    refreshed: None,
                });
                models.insert(entry.name.clone(), model);
                continue;
            }
            let path = model_path(loaded, entry);
            let model = ScoringModel::open(entry, &path, config, notices).with_context(key)?;
            if model.renderer.tokenizer().fingerprint() != renderer.tokenizer().fingerprint() {
                bail!("{}: its tokenizer is not that of the model that is trained, so that their tokens differ", key());
            }
            models.insert(entry.name.clone(), model);
        }
        if refresh_every > 1 && following.is_none() {
            bail!(
                "[trainer] distillation.refresh_every is {refresh_every}, but no teacher is the trained model `{trained}`: others \
                 stay as they are, so leave it out"
            );
        }
        Ok(Self {
            models,
            own: followed,
            following,
            renderer: renderer.clone(),
            options: distillation(config).cloned(),
        })
    }

    /// What a run is given.
    pub(crate) fn teachers(&self) -> Option<Teachers> {
        // Without a name the targets were written before, and nobody is asked.
        let options = self.options.clone().filter(|options| !options.teacher_names().is_empty())?;
        let sampler = |(name, model): (&String, &ScoringModel)| (name.clone(), model.sampler.clone());
        let samplers = self.models.iter().map(sampler).chain(self.own.clone()).collect();
        Some(Teachers { options, renderer: self.renderer.clone(), samplers, following: self.following.clone() })
    }
}

/// The model of what is trained in this process once more, whose weights are its own.
fn second_copy(loaded: &LoadedConfig, entry: &ModelEntry, notices: &dyn Notices) -> Result<ScoringModel> {
    if entry.backend == Backend::Tinker {
        bail!(
            "it is trained at a service, whose weights are not here: [trainer] distillation.refresh_every is of a model that this \
             process trains, so leave it out, and the teacher follows every update"
        );
    }
    let embedded = ModelEntry { backend: Backend::Embedded, ..entry.clone() };
    ScoringModel::open(&embedded, &model_path(loaded, entry), &loaded.config, notices)
}

/// What a directory of the policy's weights is.
fn saved_as(entry: &ModelEntry, config: &Config) -> fn(PathBuf) -> WeightsSource {
    if entry.lora(config.run.seed).is_some() { WeightsSource::Adapter } else { WeightsSource::Model }
}
