//! `fulgurite export --what soft-targets`: what a run's teacher would say in the places of its conversations, as a file to learn
//! from without it.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_config::checks::check_config;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_trainer::{ObjectiveName, SoftTargetFile, TrainingPlan};

use super::prepared::trained_model;
use super::{data_checks, sft};
use crate::auxiliary::teachers::OpenTeachers;
use crate::models::model_or_base::model_or_base;
use crate::models::open::context_length;
use crate::notices::Notices;
use crate::silent_reporter::SilentReporter;

/// Writes a line for each conversation of the config's source, and says how many there are.
///
/// # Errors
/// If the config is of no run that has a teacher say what it would in conversations of a file; if one of them cannot be trained;
/// if the teacher cannot be asked.
pub async fn write_soft_targets(
    loaded: &LoadedConfig,
    to: &Path,
    notices: &dyn Notices,
    progress: impl FnMut(u64, u64),
) -> Result<u64> {
    let file = || loaded.file.as_ref().map_or(String::new(), |file| file.display().to_string());
    check_config(loaded).with_context(file)?;
    let trainer = &loaded.config.trainer;
    let source = trainer.source().and_then(|source| source.conversations.as_deref());
    let is_distillation = trainer.objective.name() == ObjectiveName::OffPolicyDistillation;
    let (TrainingPlan::Conversations(plan), Some(source), true) = (trainer.plan()?, source, is_distillation) else {
        bail!(
            "{}: soft targets are of a run with objective = \"off_policy_distillation\" and source = {{ conversations = \"FILE\" }}",
            file()
        )
    };
    let model = trained_model(loaded).with_context(file)?;
    data_checks::check(loaded).with_context(file)?;
    let model_directory = model_or_base(loaded, &model, &mut SilentReporter, notices).await?;
    let renderer = fulgurite_renderers::open_renderer(&model_directory, model.renderer())
        .with_context(|| format!("model `{}`", model.name))?;
    let opened = OpenTeachers::open(loaded, &model.name, &renderer, None, notices).with_context(file)?;
    let teachers = opened.teachers().with_context(|| {
        format!("{}: [trainer] source.form is \"soft_targets\": these targets are written already", file())
    })?;
    // A table is written out as lines while they are read.
    let lines = tempfile::tempdir().context("cannot make a directory for temporary files")?;
    let conversations = sft::file(loaded, source, lines.path(), "conversations.jsonl")?;
    let context_length = context_length(&model_directory)?;
    let targets = SoftTargetFile { renderer, plan: *plan, context_length, conversations, teachers };
    Ok(targets.write(to, progress).await?)
}
