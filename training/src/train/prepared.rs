//! What a run needs before it begins, wherever its record is: its config, its model and its tasks, checked.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use fulgurite_config::checks::{check_commands, check_config};
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::model_roles::trainable_models;
use fulgurite_config::models::ModelEntry;
use fulgurite_lab::records::run_files::{START_ADAPTER, model_path};
use fulgurite_trainer::{Reporter, Tasks};

use super::commands::Commands;
use super::data_checks;
use crate::models::model_or_base::model_or_base;
use crate::models::open::check_learner;
use crate::models::service_needs::check_service;
use crate::notices::Notices;
use crate::start::options::TrainOptions;
use crate::start::run_directory::resumable_directory;

/// What a run needs, wherever its record is.
pub(super) struct Prepared {
    pub(super) loaded: LoadedConfig,
    pub(super) options: TrainOptions,
    pub(super) commands: Commands,
    pub(super) reporter: Box<dyn Reporter>,
    pub(super) notices: Arc<dyn Notices>,
    pub(super) model: ModelEntry,
    /// Where the model is.
    pub(super) model_directory: PathBuf,
    pub(super) tasks: Tasks,
    pub(super) started: Instant,
}

impl Prepared {
    /// Reads and checks the config, and makes the model's base if it is missing.
    pub(super) async fn new(
        options: TrainOptions,
        mut reporter: Box<dyn Reporter>,
        notices: Arc<dyn Notices>,
    ) -> Result<Self> {
        let started = Instant::now();
        let commands = Commands::of(&options);
        let mut loaded = LoadedConfig::read_with(Some(&options.config), &options.overrides)?;
        options.override_config(&mut loaded.config);
        let file = || options.config.display().to_string();
        check_config(&loaded).with_context(file)?;
        use_kept_adapter(&mut loaded, &options);
        loaded.take_adapters().with_context(file)?;
        let model = trained_model(&loaded).with_context(file)?;
        if loaded.config.trainer.objective.name().learns_from_data() {
            data_checks::check_model(&loaded, &model).and_then(|()| data_checks::check(&loaded)).with_context(file)?;
        }
        data_checks::check_auxiliary_files(&loaded).with_context(file)?;
        let tasks = load_tasks(&loaded).with_context(file)?;
        check_commands(&loaded, &options.agent, &[&tasks.train, &tasks.held_out, &tasks.last]).with_context(file)?;
        if !model_path(&loaded, &model).exists() {
            check_learner(&model, &loaded)?;
        }
        check_service(&loaded, &model).await.with_context(file)?;
        if let Some(summary) = model.adapter_summary() {
            notices.note(format_args!("model `{}`: {summary}", model.name));
        }
        let model_directory = model_or_base(&loaded, &model, reporter.as_mut(), notices.as_ref()).await?;
        Ok(Self { loaded, options, commands, reporter, notices, model, model_directory, tasks, started })
    }
}

/// Has a run that goes on read the adapter that it keeps, wherever the config's own is now.
fn use_kept_adapter(loaded: &mut LoadedConfig, options: &TrainOptions) {
    if !options.resumes() {
        return;
    }
    let run = resumable_directory(loaded, options.run_directory.as_deref());
    let Some(kept) = run.map(|run| run.join(START_ADAPTER)).filter(|kept| kept.exists()) else { return };
    for model in loaded.config.models.iter_mut().filter(|model| model.adapter.is_some()) {
        model.adapter = Some(kept.clone());
    }
}

/// The model that is trained: the only one beside the reference and the teachers, if there are any; or the only teacher, which
/// is then what the model has become.
pub(super) fn trained_model(loaded: &LoadedConfig) -> Result<ModelEntry> {
    match trainable_models(&loaded.config)?.as_slice() {
        [model] if model.backend.upstream_dialect().is_some() => {
            bail!(
                "the calls of `{}` are passed on, so that it cannot be trained: its backend is {}",
                model.name,
                model.backend.name()
            )
        }
        [model] => Ok((*model).clone()),
        [] => bail!("training needs exactly one [[models]], and there are 0"),
        models => bail!(
            "training needs exactly one [[models]], and there are {}; those with trained = false are served beside it",
            models.len()
        ),
    }
}

fn load_tasks(loaded: &LoadedConfig) -> Result<Tasks> {
    let Config { tasks, trainer, runner, .. } = &loaded.config;
    if trainer.objective.name().learns_from_data() {
        return Ok(Tasks { train: Vec::new(), held_out: Vec::new(), last: Vec::new() });
    }
    if trainer.harvest().is_some() {
        if trainer.common.needs_scores() == Some("final_weights") {
            bail!(
                "[trainer] final_weights is of a run that ends, and a harvest goes on: leave it out; publish_if judges its weights"
            );
        }
        if tasks.is_some() || runner.runs_agents() || trainer.stops_early() {
            bail!(
                "[trainer] harvest takes rollouts as they come, and scores none: leave out [tasks], [runner] command and \
                 [trainer] stop"
            );
        }
        return Ok(Tasks { train: Vec::new(), held_out: Vec::new(), last: Vec::new() });
    }
    let tasks = tasks.as_ref().context("training needs [tasks], or [trainer] harvest")?;
    let directory = &loaded.directory;
    Ok(Tasks {
        train: tasks.train.load("train", directory)?,
        held_out: tasks.held_out.load("held_out", directory)?,
        last: match &tasks.last {
            Some(source) => source.load("final", directory)?,
            None => Vec::new(),
        },
    })
}
