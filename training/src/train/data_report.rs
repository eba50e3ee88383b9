//! `fulgurite data`: what the data of a run are, by its config and its model's tokenizer, before anything is trained.

use anyhow::{Context, Result, bail};
use fulgurite_config::checks::check_config;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_trainer::{DataCheck, DataReport};

use super::data_checks::{self, objective};
use super::prepared::trained_model;
use super::sft;
use crate::models::model_or_base::model_or_base;
use crate::models::open::context_length;
use crate::notices::Notices;
use crate::silent_reporter::SilentReporter;

/// Looks at every row that the config's run would learn from, and at those that it would be scored on.
///
/// # Errors
/// If the config is of no run that learns from files; if a row is wrong.
pub async fn data_report(loaded: &LoadedConfig, notices: &dyn Notices) -> Result<DataReport> {
    let file = || loaded.file.as_ref().map_or(String::new(), |file| file.display().to_string());
    check_config(loaded).with_context(file)?;
    let trainer = &loaded.config.trainer;
    let source = trainer.source().filter(|source| source.rollouts.is_none());
    let Some(source) = source else {
        bail!(
            "{}: {} has no file of conversations or comparisons to look at, as source = {{ conversations = \"FILE\" }} of \
             objective = \"sft\" names one",
            file(),
            objective(loaded)
        )
    };
    let model = trained_model(loaded).with_context(file)?;
    data_checks::check(loaded).with_context(file)?;
    let model_directory = model_or_base(loaded, &model, &mut SilentReporter, notices).await?;
    let renderer = fulgurite_renderers::open_renderer(&model_directory, model.renderer())
        .with_context(|| format!("model `{}`", model.name))?;
    // Tables and packed files are written out as lines while they are read.
    let lines = tempfile::tempdir().context("cannot make a directory for temporary files")?;
    let data = sft::data_of_files(loaded, source, lines.path())?.context("[trainer] source names no file")?;
    let check = DataCheck {
        renderer,
        plan: trainer.plan()?,
        context_length: context_length(&model_directory)?,
        data,
        validation: sft::held_out(loaded, source, lines.path())?,
        seed: loaded.config.run.seed,
    };
    Ok(check.report().await?)
}
