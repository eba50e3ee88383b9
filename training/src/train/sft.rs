//! Objectives that learn from data that are there, and for which nobody samples: conversations, with or without a teacher, and
//! comparisons of answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::interruptions::Interruptions;
use fulgurite_lab::records::exclusive_lock::ExclusiveLock;
use fulgurite_lab::records::failure::{self, Interrupted};
use fulgurite_lab::trackers::tracked;
use fulgurite_renderers::Renderer;
use fulgurite_store::Store;
use fulgurite_trainer::{
    AuxiliaryFile, ConversationsFile, DataSource, HeldOutFile, MixedFile, MixtureFile, Preferences, Record, Reporter,
    RowUnit, RunSummary, Sft, SftData, TrainError, TrainingPlan,
};

use super::data_checks::{objective, validation_files};
use super::hosts::{close, open_trained};
use super::last_word::LastWord;
use super::prepared::Prepared;
use crate::auxiliary::reference::ReferenceModel;
use crate::auxiliary::teachers::OpenTeachers;
use crate::data::parquet_conversations::{Columns, write_as_json_lines};
use crate::data::recorded_rollouts;
use crate::data::unpacked_lines::{DataFormat, data_format, write_unpacked};
use crate::models::open::context_length;
use crate::notices::warn;
use crate::start::held_run::RunLoss;
use crate::start::identity::run_identity;
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
    let opened = open_trained(&loaded, &model, &model_directory, &run_directory).await?;
    let gpu = opened.gpu.clone();
    let reporter = tracked(reporter, &loaded, &run_directory, warn(&notices));
    let mut interruptions = Interruptions::listen()?;
    let record: Arc<dyn Record> = Arc::new(store.clone());
    commands.follow(&record, &run_id).await?;
    let source = loaded.config.trainer.source().cloned().context("[trainer] source is missing")?;
    let validation = held_out(&loaded, &source, &run_directory)?;
    let data = data(&loaded, &source, &model.name, &store, &run_directory).await?;
    let context_length = context_length(&model_directory)?;
    let identity = run_identity(&loaded, run_id, &run_directory, archive)?;
    let (learner, renderer) = (opened.learner.clone(), opened.served.renderer.clone());
    let plan = loaded.config.trainer.plan()?;
    let reference = ReferenceModel::open(&loaded, &renderer, notices.as_ref())?;
    let opened_teachers = OpenTeachers::open(&loaded, &model.name, &renderer, None, notices.as_ref())?;
    let teachers = opened_teachers.teachers();
    let training = match plan {
        TrainingPlan::Comparisons(plan) => {
            let reference_name = reference.name(&loaded, &model, &model_directory, notices.as_ref())?;
            let (plan, reference) = (*plan, reference.reference());
            DataObjective::Comparisons(Preferences {
                record,
                learner,
                reference,
                reference_name,
                renderer,
                plan,
                context_length,
                data,
                validation,
                identity,
            })
        }
        TrainingPlan::Conversations(plan) => {
            let plan = *plan;
            let sft = Sft { record, learner, renderer, plan, context_length, data, teachers, validation, identity };
            DataObjective::Conversations(sft)
        }
        TrainingPlan::Rollouts(_) => bail!("{} learns from rollouts", objective(&loaded)),
    };
    let mut last_word = LastWord::new(reporter, started);
    let outcome: Result<RunSummary> = tokio::select! {
        outcome = training.run(options.resumes(), &mut last_word) => outcome.map_err(anyhow::Error::from),
        error = loss.happens() => Err(error),
        () = interruptions.next() => Err(Interrupted.into()),
    };
    let woken = close(gpu.as_deref()).await;
    outcome?;
    woken?;
    Ok(last_word)
}

/// An objective, with the data that it learns from.
enum DataObjective {
    Comparisons(Preferences),
    Conversations(Sft),
}

impl DataObjective {
    async fn run(&self, resume: bool, reporter: &mut dyn Reporter) -> Result<RunSummary, TrainError> {
        match self {
            Self::Comparisons(preferences) => preferences.run(resume, reporter).await,
            Self::Conversations(sft) => sft.run(resume, reporter).await,
        }
    }
}

/// What is trained.
async fn data(
    loaded: &LoadedConfig,
    source: &DataSource,
    model: &str,
    store: &Store,
    run_directory: &Path,
) -> Result<SftData> {
    if let Some(data) = data_of_files(loaded, source, run_directory)? {
        return Ok(data);
    }
    let rollouts = source.rollouts.as_ref().context("[trainer] source says not where")?;
    let rollout_ids = recorded_rollouts::selected(store, rollouts, run_directory).await?;
    let named = rollouts.models();
    let models = if named.is_empty() { vec![model.to_owned()] } else { named.into_iter().map(str::to_owned).collect() };
    Ok(SftData::Rollouts { rollout_ids, models })
}

/// What is trained, where it is in files.
pub(super) fn data_of_files(loaded: &LoadedConfig, source: &DataSource, directory: &Path) -> Result<Option<SftData>> {
    for (path, lines) in [(&source.conversations, "conversations.jsonl"), (&source.comparisons, "comparisons.jsonl")] {
        if let Some(path) = path {
            return Ok(Some(SftData::File(file(loaded, path, directory, lines)?)));
        }
    }
    let read = |(index, mixed): (usize, &MixedFile)| {
        let file = file(loaded, &mixed.file, directory, &format!("mixture-{index}.jsonl"))?;
        Ok(MixtureFile { file, form: mixed.form, portion: mixed.portion() })
    };
    let files = source.mixture.iter().enumerate().map(read).collect::<Result<Vec<_>>>()?;
    Ok(Some(files).filter(|files| !files.is_empty()).map(SftData::Mixture))
}

/// Conversations that a run on rollouts has besides them.
pub(super) struct AuxiliaryFiles {
    /// Those that it learns from.
    pub(super) conversations: Option<AuxiliaryFile>,
    /// Those that a harvest is scored on.
    pub(super) validation: Option<AuxiliaryFile>,
}

impl AuxiliaryFiles {
    /// Those that the config names.
    pub(super) fn of(
        loaded: &LoadedConfig,
        run_directory: &Path,
        model_directory: &Path,
        renderer: &Arc<dyn Renderer>,
    ) -> Result<Self> {
        let read = |path: &Path, lines: &str| -> Result<AuxiliaryFile> {
            Ok(AuxiliaryFile {
                file: file(loaded, path, run_directory, lines)?,
                renderer: renderer.clone(),
                context_length: context_length(model_directory)?,
            })
        };
        let trainer = &loaded.config.trainer;
        let conversations = trainer.rollouts().and_then(|rollouts| rollouts.conversations.as_ref());
        let validation = trainer.harvest().and_then(|harvest| harvest.validation.as_deref());
        Ok(Self {
            conversations: conversations.map(|named| read(&named.file, "conversations.jsonl")).transpose()?,
            validation: validation.map(|path| read(path, "validation.jsonl")).transpose()?,
        })
    }
}

/// What is scored, where that is in files of its own.
pub(super) fn held_out(loaded: &LoadedConfig, source: &DataSource, directory: &Path) -> Result<Vec<HeldOutFile>> {
    let read = |(name, path): (Option<&str>, &Path)| {
        let lines = name.map_or_else(|| "validation.jsonl".to_owned(), |name| format!("validation-{name}.jsonl"));
        Ok(HeldOutFile { name: name.map(str::to_owned), file: file(loaded, path, directory, &lines)? })
    };
    validation_files(source).into_iter().map(read).collect()
}

/// A file of conversations or comparisons. One in Parquet, in a list of JSON or compressed is written out as lines below the
/// run's directory first.
pub(super) fn file(loaded: &LoadedConfig, path: &Path, run_directory: &Path, lines: &str) -> Result<ConversationsFile> {
    let name = loaded.resolve(path);
    let path = run_directory.join(lines);
    Ok(match data_format(&name) {
        DataFormat::Lines => ConversationsFile { path: name.clone(), name, unit: RowUnit::Line },
        DataFormat::Packed(compression) => {
            let unit = write_unpacked(&name, compression, &path)?;
            ConversationsFile { path, name, unit }
        }
        DataFormat::Parquet => {
            let compares = loaded.config.trainer.objective.name().reads_comparisons();
            let columns = if compares { Columns::Comparisons } else { Columns::Conversations };
            let group = loaded.config.trainer.source().and_then(|source| source.validation_group.as_deref());
            write_as_json_lines(&name, &path, columns, group)?;
            ConversationsFile { path, name, unit: RowUnit::Row }
        }
    })
}
