//! The model that judges attempts by `[runner.rubric]`: served beside the policy, for the runner to ask.

use anyhow::{Context, Result, bail};
use fulgurite_proxy::ServedModel;

use crate::config::declarations::{Config, LoadedConfig};
use crate::config::models::ModelEntry;
use crate::models::open::OpenModel;
use crate::train::run_files::model_path;

fn key(name: &str) -> String {
    format!("[runner.rubric] judge = \"{name}\"")
}

/// The model that the config names, if it names one.
///
/// # Errors
/// If there is no such model, or if it is the one that is trained, whose tokens would then be its own judge's.
pub fn entry(config: &Config) -> Result<Option<&ModelEntry>> {
    let Some(rubric) = &config.runner.rubric else { return Ok(None) };
    match config.models.iter().find(|model| model.name == rubric.judge) {
        None => bail!("{}: there is no such [[models]]", key(&rubric.judge)),
        Some(_) if config.models.len() == 1 => {
            bail!("{}: that is the model which is trained; a judge is another", key(&rubric.judge))
        }
        entry => Ok(entry),
    }
}

/// The same, as the runner calls it.
///
/// # Errors
/// As [`entry`], and if it cannot be opened.
pub fn served(loaded: &LoadedConfig) -> Result<Option<ServedModel>> {
    let Some(entry) = entry(&loaded.config)? else { return Ok(None) };
    let entry = ModelEntry { path: model_path(loaded, entry), ..entry.clone() };
    let opened = OpenModel::open(&entry, &loaded.directory, &loaded.config).with_context(|| key(&entry.name))?;
    Ok(Some(opened.served))
}
