//! Objectives that learn from data that are there, and for which nobody samples: conversations, with or without a teacher, and
//! comparisons of answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::failure::{self, Interrupted};
use fulgurite_lab::records::run_directory::run_instance;
use fulgurite_lab::trackers::tracked;
use fulgurite_renderers::Renderer;
use fulgurite_store::Store;
use fulgurite_trainer::{
    AuxiliaryFile, ConversationsFile, DataSource, Preferences, Record, RowUnit, RunIdentity, RunSummary, Sft, SftData,
    TrainingPlan,
};

use super::data_checks::{objective, validation_file};
use super::hosts::{PUBLISHED_WEIGHTS, close};
use super::last_word::LastWord;
use super::prepared::Prepared;
use crate::auxiliary::reference::ReferenceModel;
use crate::auxiliary::teachers::OpenTeachers;
use crate::data::parquet_conversations::{Columns, is_parquet, write_as_json_lines};
use crate::data::recorded_rollouts;
use crate::models::open::{TrainedModel, context_length};
use crate::notices::warn;
use crate::start::held_run::RunLoss;
use crate::start::own_run::OwnRun;
use crate::start::uploaded_runs::{open_run_directory, run_archive};

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
