//! What a config may say of data that is there, and of the model that learns from it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::{Config, LoadedConfig};
use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_trainer::{DataSource, ObjectiveName, ObjectiveOptions, Packing, Validation};

/// As a config says it.
pub(super) fn objective(loaded: &LoadedConfig) -> String {
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
    let trained = [source.conversations.as_deref(), source.comparisons.as_deref()].into_iter().flatten();
    let mixture = source.mixture.iter().map(|mixed| mixed.file.as_path());
    for path in trained.chain(mixture).chain(validation_files(source).into_iter().map(|(_, path)| path)) {
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
        Backend::Tinker if packs_documents(loaded) => bail!(
            "[trainer] packing = true keeps the conversations of a pass apart, and how a Tinker service computes them is its \
             own: leave it out, or say packing = \"concatenate\""
        ),
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

fn packs_documents(loaded: &LoadedConfig) -> bool {
    match &loaded.config.trainer.objective {
        ObjectiveOptions::Sft(options) => options.packing == Packing::Documents,
        _ => false,
    }
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

/// Files of rows that are scored, with their names, if they have such.
pub(super) fn validation_files(source: &DataSource) -> Vec<(Option<&str>, &Path)> {
    match &source.validation {
        Some(Validation::File(path)) => vec![(None, path.as_path())],
        Some(Validation::Named(files)) => {
            files.iter().map(|(name, path)| (Some(name.as_str()), path.as_path())).collect()
        }
        Some(Validation::Share(_)) | None => Vec::new(),
    }
}
