//! The model that a config is of, made first where the config says of what.

use std::path::PathBuf;

use anyhow::{Result, bail};
use fulgurite_config::admin_key;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::ModelEntry;
use fulgurite_lab::records::run_files::model_path;
use fulgurite_trainer::Reporter;

use super::base_model::{self, Recipe};
use super::model_directory::model_directory;
use crate::notices::Notices;
use crate::upload_keys::upload_keys;

/// The files of a model that is in the config; makes its base first if they are missing and the config says of what.
///
/// # Errors
/// If they are missing and nothing says of what to make them, or if they cannot be made.
pub async fn model_or_base(
    loaded: &LoadedConfig,
    model: &ModelEntry,
    reporter: &mut dyn Reporter,
    notices: &dyn Notices,
) -> Result<PathBuf> {
    let seed = loaded.config.run.seed;
    let path = model_path(loaded, model);
    match &loaded.config.base {
        Some(base) => {
            let base_seed = base.seed.unwrap_or(seed);
            let mut secrets = admin_key::variables(&loaded.config.server);
            secrets.extend(upload_keys(loaded));
            let renderer = model.renderer.clone();
            let recipe = Recipe { base: base.clone(), seed: base_seed, renderer, tools: model.tools };
            let (directory, options) = (&loaded.directory, loaded.config.engine.options());
            base_model::make_if_missing(&recipe, &path, directory, &secrets, options, reporter).await?;
        }
        None if !path.exists() => {
            let file = loaded.file.as_ref().map_or(String::new(), |file| format!(" of {}", file.display()));
            bail!(
                "{} does not exist, and there is no [base] to make it from ([[models]] path{file}): `fulgurite model fetch hf:OWNER/NAME \
                 DIR` brings a model, and an example's README says how its own is made",
                path.display(),
            )
        }
        None => {}
    }
    model_directory(&path, notices)
}
