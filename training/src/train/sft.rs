//! Objectives that learn from data that are there, and for which nobody samples: conversations, with or without a teacher, and
//! comparisons of answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::failure::{self, Interrupted};
use fulgurite_lab::records::run_directory::run_instance;
use fulgurite_lab::trackers::tracked;
use fulgurite_renderers::Renderer;
use fulgurite_store::Store;
use fulgurite_trainer::{
    AuxiliaryFile, ConversationsFile, DataSource, ObjectiveName, Preferences, Record, RowUnit, RunIdentity, RunSummary,
    Sft, SftData, TrainingPlan, Validation,
};

use super::last_word::LastWord;
use super::prepared::Prepared;
use super::{PUBLISHED_WEIGHTS, close};
use crate::auxiliary::reference::ReferenceModel;
use crate::auxiliary::teachers::OpenTeachers;
use crate::data::parquet_conversations::{Columns, is_parquet, write_as_json_lines};
use crate::data::recorded_rollouts;
use crate::models::open::{TrainedModel, context_length};
use crate::notices::warn;
use crate::start::held_run::RunLoss;
use crate::start::own_run::OwnRun;
use crate::start::uploaded_runs::{open_run_directory, run_archive};

/// As a config says it.
fn objective(loaded: &LoadedConfig) -> String {
    format!("objective = \"{}\"", loaded.config.trainer.objective.name().as_str())
}

/// Looks at what the config says of such a run.
pub(super) fn check(loaded: &LoadedConfig) -> Result<()> {
    let Config { tasks, runner, trainer, store, .. } = &loaded.config;
    if tasks.is_some() || runner.runs_agents() || !runner.grade.is_empty() {
        bail!(
            "{} learns from {} that are there, and nobody samples: leave out [tasks], [runner] command and [runner] grade",
            objective(loaded),
            what(trainer.objective.name())
        );
    }
    let Some(source) = trainer.source() else { return Ok(()) };
    if source.rollouts.is_some() && store.url.is_none() {
        bail!(
            "[trainer] source.rollouts are those of [store] url, which is missing: url = \"sqlite://FILE\", of a server's \
             store or of a run's"
        );
    }
    for path in
        [source.conversations.as_deref(), source.comparisons.as_deref(), validation_file(source)].into_iter().flatten()
    {
        let path = loaded.resolve(path);
        std::fs::metadata(&path).with_context(|| {
            let path = path.display();
            format!("[trainer] source: cannot read {path}; an example's README says how its own is made")
        })?;
    }
    Ok(())
}

/// What such an objective learns from.
fn what(objective: ObjectiveName) -> &'static str {
    if objective.reads_comparisons() { "comparisons" } else { "conversations" }
}

/// Refuses a host that only samples.
pub(super) fn check_model(loaded: &LoadedConfig, model: &ModelEntry) -> Result<()> {
    match model.backend {
        Backend::Embedded | Backend::Tinker => Ok(()),
        _ => bail!(
            "{} trains an embedded model, or one at a tinker service; `{}` is at {}, which samples and \
             does not learn: give its directory to backend = \"embedded\", train, and serve what comes of it",
            objective(loaded),
            model.name,
            model.backend.name()
        ),
    }
}

/// Trains in this process.
pub(super) async fn train(prepared: Prepared) -> Result<()> {
    let Prepared { loaded, options, .. } = &prepared;
    if !options.agent.is_empty() {
        bail!("{} runs no agent: leave out what stands after --", objective(loaded));
    }
    if options.server.is_some() || options.ready_file.is_some() {
        bail!("{} needs no server and starts none: leave out --server and --ready-file", objective(loaded));
    }
    let run_directory = open_run_directory(loaded, options).await?.path;
    let _run_lock = ExclusiveLock::of_run(&run_directory)?;
    failure::kept(&run_directory, train_in(run_directory.clone(), prepared)).await
}

/// The same, in a directory whose lock is held.
async fn train_in(run_directory: PathBuf, prepared: Prepared) -> Result<()> {
    let run =
        OwnRun::open(&run_directory, &prepared.loaded, prepared.options.resumes(), prepared.notices.as_ref()).await?;
    run.during(|store, run_id, loss| train_held(run_directory, prepared, store, run_id, loss)).await?.speak();
    Ok(())
}

/// The same, of a run that is this process's.
async fn train_held(
    run_directory: PathBuf,
    prepared: Prepared,
    store: Store,
    run_id: String,
    mut loss: RunLoss,
) -> Result<LastWord> {
    let Prepared { loaded, options, commands, reporter, notices, model, model_directory, started, .. } = prepared;
    let archive = run_archive(&loaded, &run_directory, &run_id).await?;
    let opened = TrainedModel::open(&model, &model_directory, run_directory.join(PUBLISHED_WEIGHTS), &loaded)?;
    let gpu = opened.gpu.clone();
    if let Some(gpu) = &gpu {
        gpu.prepare().await?;
    }
    let reporter = tracked(reporter, &loaded, &run_directory, warn(&notices));
    let mut interruptions = Interruptions::listen()?;
    let record: Arc<dyn Record> = Arc::new(store.clone());
    commands.follow(&record, &run_id).await?;
    let source = loaded.config.trainer.source().cloned().context("[trainer] source is missing")?;
    let validation = validation_file(&source);
    let validation = validation.map(|path| file(&loaded, path, &run_directory, "validation.jsonl")).transpose()?;
    let data = data(&loaded, &source, &model.name, &store, &run_directory).await?;
    let context_length = context_length(&model_directory)?;
    let instance = run_instance(&run_directory)?;
    let identity = RunIdentity { run_id, instance, seed: loaded.config.run.seed, directory: run_directory, archive };
    let (learner, renderer) = (opened.learner.clone(), opened.served.renderer.clone());
    let plan = loaded.config.trainer.plan()?;
    let reference = ReferenceModel::open(&loaded, &renderer, notices.as_ref())?;
    let opened_teachers = OpenTeachers::open(&loaded, &model.name, &renderer, None, notices.as_ref())?;
    let teachers = opened_teachers.teachers();
    let mut last_word = LastWord::new(reporter, started);
    let run = async {
        match plan {
            TrainingPlan::Comparisons(plan) => {
                let (reference_name, reference) =
                    (reference.name(&loaded, &model, &model_directory, notices.as_ref())?, reference.reference());
                let preferences = Preferences {
                    record,
                    learner,
                    reference,
                    reference_name,
                    renderer,
                    plan: *plan,
                    context_length,
                    data,
                    validation,
                    identity,
                };
                Ok(preferences.run(options.resumes(), &mut last_word).await?)
            }
            TrainingPlan::Conversations(plan) => {
                let plan = *plan;
                let sft = Sft { record, learner, renderer, plan, context_length, data, teachers, validation, identity };
                Ok(sft.run(options.resumes(), &mut last_word).await?)
            }
            TrainingPlan::Rollouts(_) => bail!("{} learns from rollouts", objective(&loaded)),
        }
    };
    let outcome: Result<RunSummary> = tokio::select! {
        outcome = run => outcome,
        error = loss.happens() => Err(error),
        () = interruptions.next() => Err(Interrupted.into()),
    };
    let woken = close(gpu.as_deref()).await;
    outcome?;
    woken?;
    Ok(last_word)
}

/// What is trained.
async fn data(
    loaded: &LoadedConfig,
    source: &DataSource,
    model: &str,
    store: &Store,
    run_directory: &Path,
) -> Result<SftData> {
    for (path, lines) in [(&source.conversations, "conversations.jsonl"), (&source.comparisons, "comparisons.jsonl")] {
        if let Some(path) = path {
            return Ok(SftData::File(file(loaded, path, run_directory, lines)?));
        }
    }
    let rollouts = source.rollouts.as_ref().context("[trainer] source says not where")?;
    let rollout_ids = recorded_rollouts::selected(store, rollouts, run_directory).await?;
    let named = rollouts.models();
    let models = if named.is_empty() { vec![model.to_owned()] } else { named.into_iter().map(str::to_owned).collect() };
    Ok(SftData::Rollouts { rollout_ids, models })
}

/// The conversations that a run on rollouts learns from beside.
pub(super) fn auxiliary_conversations(
    loaded: &LoadedConfig,
    run_directory: &Path,
    model_directory: &Path,
    renderer: &Arc<dyn Renderer>,
) -> Result<Option<AuxiliaryFile>> {
    let rollouts = loaded.config.trainer.rollouts();
    let Some(conversations) = rollouts.and_then(|rollouts| rollouts.conversations.as_ref()) else { return Ok(None) };
    Ok(Some(AuxiliaryFile {
        file: file(loaded, &conversations.file, run_directory, "conversations.jsonl")?,
        renderer: renderer.clone(),
        context_length: context_length(model_directory)?,
    }))
}

/// The conversations that a harvest is scored on.
pub(super) fn harvest_validation(
    loaded: &LoadedConfig,
    run_directory: &Path,
    model_directory: &Path,
    renderer: &Arc<dyn Renderer>,
) -> Result<Option<AuxiliaryFile>> {
    let validation = loaded.config.trainer.harvest().and_then(|harvest| harvest.validation.as_deref());
    let Some(validation) = validation else { return Ok(None) };
    Ok(Some(AuxiliaryFile {
        file: file(loaded, validation, run_directory, "validation.jsonl")?,
        renderer: renderer.clone(),
        context_length: context_length(model_directory)?,
    }))
}

/// Looks for the conversations that a run on rollouts learns from beside, and those that it is scored on.
pub(super) fn check_auxiliary_files(loaded: &LoadedConfig) -> Result<()> {
    let trainer = &loaded.config.trainer;
    let auxiliary = trainer.rollouts().and_then(|rollouts| rollouts.conversations.as_ref());
    let auxiliary = auxiliary.map(|conversations| ("conversations.file", &conversations.file));
    let validation = trainer.harvest().and_then(|harvest| harvest.validation.as_ref());
    for (key, path) in auxiliary.into_iter().chain(validation.map(|path| ("harvest.validation", path))) {
        let path = loaded.resolve(path);
        std::fs::metadata(&path).with_context(|| format!("[trainer] {key}: cannot read {}", path.display()))?;
    }
    Ok(())
}

fn validation_file(source: &DataSource) -> Option<&Path> {
    match source.validation.as_ref()? {
        Validation::File(path) => Some(path),
        Validation::Share(_) => None,
    }
}

/// A file of conversations; one in Parquet is written out as lines below the run's directory first.
pub(super) fn file(loaded: &LoadedConfig, path: &Path, run_directory: &Path, lines: &str) -> Result<ConversationsFile> {
    let name = loaded.resolve(path);
    if !is_parquet(&name) {
        return Ok(ConversationsFile { path: name.clone(), name, unit: RowUnit::Line });
    }
    let path = run_directory.join(lines);
    let compares = loaded.config.trainer.objective.name().reads_comparisons();
    write_as_json_lines(&name, &path, if compares { Columns::Comparisons } else { Columns::Conversations })?;
    Ok(ConversationsFile { path, name, unit: RowUnit::Row })
}
