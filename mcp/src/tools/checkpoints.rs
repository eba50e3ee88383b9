//! Checkpoints by name, runs that go on from them, and weights for other programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::start::begin;
use super::waiting::Wait;
use crate::at_start::AtStart;
use crate::error::ToolError;
use crate::program::words;
use crate::progress::Progress;
use crate::session::Session;
use crate::training::Trainings;
use crate::workspace::{RunRecord, check_name};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveCheckpoint {
    /// The run.
    pub(super) run: String,
    /// What its newest checkpoint is called from now on.
    pub(super) name: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LoadCheckpoint {
    /// The run that the checkpoint is of.
    pub(super) run: String,
    /// The checkpoint, by its name or its updates.
    pub(super) checkpoint: String,
    /// What the run is called that goes on from it; new.
    pub(super) new_run: String,
    /// What to do where weights are behind the model at the server, such as those of the old run: refuse (the default), or
    /// start_over, which puts the checkpoint's in their place.
    #[serde(default)]
    pub(super) at_start: AtStart,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExportWeights {
    /// The run.
    run: String,
    /// Another checkpoint than its newest, by its name or its updates.
    checkpoint: Option<String>,
    /// peft (a LoRA adapter), merged (a whole model), or gguf.
    format: Format,
    /// What the directory or file is called, below the tools' directory `exports`; new.
    name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Format {
    Peft,
    Merged,
    Gguf,
}

pub(super) async fn save(session: &Session, arguments: SaveCheckpoint, _: &Progress) -> Result<String, ToolError> {
    let SaveCheckpoint { run, name } = arguments;
    let wrong = |why: String| ToolError::Arguments { tool: "save_checkpoint", why };
    check_name(&name).map_err(wrong)?;
    if name.bytes().all(|byte| byte.is_ascii_digit()) || name == "before" {
        return Err(wrong(format!("{name:?} would mean something else: checkpoints are numbered by their updates")));
    }
    let mut trainings = session.turn().await?;
    let home = session.workspace.run(&run)?;
    let mut record = home.sealed_record()?;
    trainings.check_at_rest(&home)?;
    if record.checkpoints.contains_key(&name) {
        return Err(ToolError::Exists { kind: "checkpoint", name });
    }
    let step = home.chosen(&record, None)?;
    record.checkpoints.insert(name.clone(), step);
    home.write(&record)?;
    let path = session.workspace.shown(&home.checkpoint(step));
    Ok(format!(
        "{path}, after {step} updates, is {name:?}.\nNext: train_steps, or load_checkpoint(run = {run:?}, checkpoint = {name:?})."
    ))
}

pub(super) async fn load(
    session: &Session,
    arguments: LoadCheckpoint,
    progress: &Progress,
) -> Result<String, ToolError> {
    let mut trainings = session.turn().await?;
    loaded(session, &mut trainings, &arguments, progress).await
}

/// Begins a run from a checkpoint.
pub(super) async fn loaded(
    session: &Session,
    trainings: &mut Trainings,
    arguments: &LoadCheckpoint,
    progress: &Progress,
) -> Result<String, ToolError> {
    let LoadCheckpoint { run, checkpoint, new_run, at_start } = arguments;
    check_name(new_run).map_err(|why| ToolError::Arguments { tool: "load_checkpoint", why })?;
    let home = session.workspace.run(run)?;
    let record = home.sealed_record()?;
    record.guarded.check(run)?;
    trainings.check_at_rest(&home)?;
    trainings.check_no_other(&home)?;
    let step = home.chosen(&record, Some(checkpoint))?;
    let new_home = session.workspace.home(new_run);
    if new_home.path().exists() {
        return Err(ToolError::Exists { kind: "run", name: new_run.clone() });
    }
    // A model in its own right, so that the new run needs nothing of the old one.
    let model = session.workspace.model(&format!("{run}-{step}"));
    if !model.is_dir() {
        let checkpoint = home.checkpoint(step);
        session
            .program
            .run(&words([&"model", &"export", &"--format", &"merged", &checkpoint, &"--output", &model]))
            .await?;
    }
    fs::create_dir_all(new_home.path()).map_err(ToolError::file(new_home.path()))?;
    let mut settings = record.settings.clone();
    settings.retain(|setting| !setting.starts_with("models.0.path="));
    settings.push(format!("models.0.path={}", toml::Value::String(model.display().to_string())));
    let (checkpoints, best_reward) = (BTreeMap::new(), None);
    let new_record = RunRecord { name: new_run.clone(), settings, checkpoints, best_reward, finished: false, ..record };
    let started = begin(session, trainings, &new_home, &new_record, *at_start, Wait::of(None), progress).await;
    started.map_err(|error| error.of_start("load_checkpoint"))?;
    Ok(format!(
        "Run {new_run:?} has begun from run {run:?} after {step} updates; its model is {:?} in list_models.\nNext: \
         train_steps(run = {new_run:?}, steps = 5).",
        name_of(&model)
    ))
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) async fn export(session: &Session, arguments: ExportWeights, _: &Progress) -> Result<String, ToolError> {
    let ExportWeights { run, checkpoint, format, name } = arguments;
    check_name(&name).map_err(|why| ToolError::Arguments { tool: "export_weights", why })?;
    let _turn = session.turn().await?;
    let home = session.workspace.run(&run)?;
    let step = home.chosen(&home.record()?, checkpoint.as_deref())?;
    let format_name = match format {
        Format::Peft => "peft",
        Format::Merged => "merged",
        Format::Gguf => "gguf",
    };
    let exports = session.workspace.exports()?;
    let to = if format == Format::Gguf { exports.join(format!("{name}.gguf")) } else { exports.join(&name) };
    if to.exists() {
        return Err(ToolError::Exists { kind: "export", name });
    }
    let from = home.checkpoint(step);
    let output =
        session.program.run(&words([&"model", &"export", &"--format", &format_name, &from, &"--output", &to])).await?;
    Ok(format!("Run {run:?} after {step} updates is in {}.\n{}", session.workspace.shown(&to), output.trim()))
}
