//! `objective = "sft"`: a model learns from conversations that are there, and nobody samples.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_trainer::{ConversationsFile, Record, RowUnit, RunIdentity, Sft, Validation};

use super::{INTERRUPTED, LastWord, PUBLISHED_WEIGHTS, Prepared, begin_run, run_directory, run_store_url};
use crate::config::declarations::{Config, LoadedConfig};
use crate::config::models::{Backend, ModelEntry};
use crate::models::open::{TrainedModel, context_length};
use crate::serve::command::open_store;
use crate::serve::server::Interruptions;
use crate::train::exclusive_lock::ExclusiveLock;

/// Looks at what the config says of such a run.
pub fn check(loaded: &LoadedConfig) -> Result<()> {
    let Config { tasks, runner, .. } = &loaded.config;
    if tasks.is_some() || !runner.command.is_empty() || !runner.grade.is_empty() {
        bail!(
            "objective = \"sft\" learns from conversations that are there, and nobody samples: leave out [tasks], \
             [runner] command and [runner] grade"
        );
    }
    for path in files(loaded)?.into_iter().flatten() {
        std::fs::metadata(&path.path)
            .with_context(|| format!("[trainer] source: cannot read {}", path.path.display()))?;
    }
    Ok(())
}

/// Refuses a host that only samples.
pub fn check_model(model: &ModelEntry) -> Result<()> {
    match model.backend {
        Backend::Embedded | Backend::Tinker => Ok(()),
        _ => bail!(
            "objective = \"sft\" trains an embedded model, or one at a tinker service; `{}` is at {}, which samples and \
             does not learn: give its directory to backend = \"embedded\", train, and serve what comes of it",
            model.name,
            model.backend.name()
        ),
    }
}

/// Trains in this process.
pub(super) async fn train(prepared: Prepared) -> Result<()> {
    let Prepared { loaded, arguments, reporter, model, model_directory, started, .. } = prepared;
    if !arguments.agent.is_empty() {
        bail!("objective = \"sft\" runs no agent: leave out what stands after --");
    }
    if arguments.server.is_some() || arguments.ready_file.is_some() {
        bail!("objective = \"sft\" needs no server and starts none: leave out --server and --ready-file");
    }
    let run_directory = run_directory(&loaded, &arguments)?;
    let _run_lock = ExclusiveLock::of_run(&run_directory)?;
    let store_url = run_store_url(&loaded, &run_directory);
    let _store_lock = ExclusiveLock::of_store(&store_url, "fulgurite train")?;
    let store = open_store(&store_url, &loaded.config.store).await?;
    let run_id = begin_run(&store, &loaded, &run_directory, arguments.resume).await?;
    let opened = TrainedModel::open(&model, &model_directory, run_directory.join(PUBLISHED_WEIGHTS), &loaded.config)?;
    let mut interruptions = Interruptions::listen()?;
    let record: Arc<dyn Record> = Arc::new(store.clone());
    let [conversations, validation] = files(&loaded)?;
    let sft = Sft {
        record,
        learner: opened.learner.clone(),
        renderer: opened.served.renderer.clone(),
        options: loaded.config.trainer.clone(),
        context_length: context_length(&model_directory)?,
        conversations: conversations.context("[trainer] source says not where")?,
        validation,
        identity: RunIdentity { run_id, seed: loaded.config.run.seed, directory: run_directory },
    };
    let mut last_word = LastWord { reporter, started, summary: None };
    let outcome = tokio::select! {
        outcome = sft.run(arguments.resume, &mut last_word) => outcome.map_err(anyhow::Error::from),
        () = interruptions.next() => Err(anyhow!(INTERRUPTED)),
    };
    store.close().await;
    outcome?;
    last_word.speak();
    Ok(())
}

/// The files of the source: what is trained, and what is scored if it is in one of its own.
fn files(loaded: &LoadedConfig) -> Result<[Option<ConversationsFile>; 2]> {
    let Some(source) = &loaded.config.trainer.source else { return Ok([None, None]) };
    let validation = match &source.validation {
        Some(Validation::File(path)) => Some(path),
        Some(Validation::Share(_)) | None => None,
    };
    Ok([source.conversations.as_ref(), validation].map(|path| path.map(|path| file(loaded, path))))
}

fn file(loaded: &LoadedConfig, path: &Path) -> ConversationsFile {
    let resolved: PathBuf = loaded.resolve(path);
    ConversationsFile { name: resolved.clone(), path: resolved, unit: RowUnit::Line }
}
