//! Weights that are named on the command line: by a run, a checkpoint of one, or a directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::model_roles;
use fulgurite_lab::records;
use fulgurite_lab::records::run_files::model_path;
use fulgurite_lab::runs::checkpoints::{choose, run_of, step_of};
use fulgurite_lab::runs::registry;
use fulgurite_lab::runs::which_checkpoint::WhichCheckpoint;
use serde_json::Value;

use crate::models::model_directory::model_directory;
use crate::notices::Notices;

/// The file of an adapter that says what it is over.
const ADAPTER_CONFIG: &str = "adapter_config.json";
/// The file of a model that says what it is.
const MODEL_CONFIG: &str = "config.json";
/// The file of a checkpoint whose weights a service keeps.
const KEPT_ELSEWHERE: &str = "tinker_checkpoint.json";

/// What a directory of weights holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightsKind {
    /// A whole model.
    Model,
    /// What is added to one.
    Adapter,
}

/// Weights, and where they come from.
#[derive(Debug)]
pub struct NamedWeights {
    /// Where they are.
    pub directory: PathBuf,
    /// What they are.
    pub kind: WeightsKind,
    /// The run that they are of.
    pub run: Option<PathBuf>,
    /// Updates that made them, of a run's.
    pub step: Option<u64>,
}

impl NamedWeights {
    /// Finds them. `which` is of a run's checkpoints.
    ///
    /// # Errors
    /// If nothing is there, or no such checkpoint, or if a service has the weights.
    pub fn find(source: &Path, which: WhichCheckpoint, notices: &dyn Notices) -> Result<Self> {
        if let Ok(run) = registry::directory(source) {
            let run = std::path::absolute(run).context("the working directory is gone")?;
            let chosen = choose(&run, which)?;
            return Self::at(chosen.directory, Some(run), Some(chosen.step));
        }
        if !source.exists() {
            bail!(
                "{} is no run, in runs/ neither, and no directory of weights: `fulgurite runs` lists the runs",
                source.display()
            );
        }
        if !matches!(which, WhichCheckpoint::Final | WhichCheckpoint::Newest) {
            bail!("{} is no run, and so has no checkpoint {which}: leave --checkpoint out", source.display());
        }
        let directory =
            model_directory(&std::path::absolute(source).context("the working directory is gone")?, notices)?;
        let (run, step) = (run_of(&directory), step_of(&directory));
        Self::at(directory, run, step)
    }

    fn at(directory: PathBuf, run: Option<PathBuf>, step: Option<u64>) -> Result<Self> {
        let has = |file: &str| directory.join(file).exists();
        let kind = match (has(ADAPTER_CONFIG), has(MODEL_CONFIG), has(KEPT_ELSEWHERE)) {
            (_, _, true) => bail!(
                "the weights of {} are at the service that trains them, and not here: {KEPT_ELSEWHERE} names them there",
                directory.display()
            ),
            (true, _, _) => WeightsKind::Adapter,
            (false, true, _) => WeightsKind::Model,
            _ => bail!(
                "{} holds neither a model ({MODEL_CONFIG}) nor an adapter ({ADAPTER_CONFIG})",
                directory.display()
            ),
        };
        Ok(Self { directory, kind, run, step })
    }

    /// What they are called: by their run and its updates, or by their directory.
    pub fn name(&self) -> String {
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match (&self.run, self.step) {
            (Some(run), Some(step)) => format!("{}-{step:06}", name(run)),
            _ => name(&self.directory),
        }
    }

    /// The model that an adapter is over: `named`, else that of the run, else what the adapter says.
    ///
    /// # Errors
    /// If none of them is known, or it is not there.
    pub fn base(&self, named: Option<&Path>, notices: &dyn Notices) -> Result<PathBuf> {
        if let Some(named) = named {
            return model_directory(named, notices);
        }
        let known = match &self.run {
            Some(run) => run_model(run)?.1,
            None => stated_base(&self.directory)?,
        };
        if !known.exists() {
            bail!(
                "{}, the model that {} is over, is not there: name its directory by --base",
                known.display(),
                self.directory.display()
            );
        }
        model_directory(&known, notices)
    }
}

/// The name of the model that a run trains, and where it was before.
pub(super) fn run_model(run: &Path) -> Result<(String, PathBuf)> {
    let loaded = records::config_of_run(run)?;
    match model_roles::trainable_models(&loaded.config)?.as_slice() {
        [model] => {
            let path = model_path(&loaded, model);
            Ok((model.name.clone(), path))
        }
        models => bail!("{} trains {} models, but one is needed", run.display(), models.len()),
    }
}

fn stated_base(adapter: &Path) -> Result<PathBuf> {
    let path = adapter.join(ADAPTER_CONFIG);
    let text = fulgurite_engine::read_model_config(&path)?;
    let config: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
    let stated = config["base_model_name_or_path"].as_str().filter(|stated| !stated.is_empty());
    let stated =
        stated.with_context(|| format!("{} names no base model: name its directory by --base", path.display()))?;
    Ok(PathBuf::from(stated))
}
