//! Runs whose checkpoints are uploaded to an object store, and whose directory may be gone.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use fulgurite_config::admin_key;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::run_directory::{CONFIG_DIRECTORY, write_whole};
use fulgurite_lab::records::run_files::{CONFIG_FILE, STORE_FILE};
use fulgurite_trainer::{CheckpointArchive, RunArchive};
use serde_json::{Value, json};

use super::options::TrainOptions;
use super::run_directory::{RunDirectory, latest_run, run_directory, run_prefix};

/// The directory of a new run, or of the one to be resumed; one that is gone is made anew from what was uploaded.
pub(crate) async fn open_run_directory(loaded: &LoadedConfig, options: &TrainOptions) -> Result<RunDirectory> {
    if let Some(archive) = archive(loaded)?.filter(|_| options.resumes())
        && let Some(directory) = missing(loaded, options, &archive).await?
    {
        bring_back(loaded, &directory, &archive).await?;
    }
    run_directory(loaded, options)
}

/// Where a run's checkpoints are uploaded to, if anywhere. Shows that the place can be written, and is of no other run.
pub(crate) async fn run_archive(loaded: &LoadedConfig, directory: &Path, run_id: &str) -> Result<Option<RunArchive>> {
    let Some(archive) = archive(loaded)? else { return Ok(None) };
    admin_key::keep_to_this_process();
    let path = directory.join(CONFIG_FILE);
    let file = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let run = archive.of_run(run_id);
    run.take(&file).await.context("checkpoints cannot be uploaded ([trainer] checkpoint_url)")?;
    Ok(Some(run))
}

/// The same, to look only: nothing shows that the place is this run's.
pub(crate) fn unclaimed_archive(loaded: &LoadedConfig, run_id: &str) -> Result<Option<RunArchive>> {
    let archive = archive(loaded)?;
    if archive.is_some() {
        admin_key::keep_to_this_process();
    }
    Ok(archive.map(|archive| archive.of_run(run_id)))
}

fn archive(loaded: &LoadedConfig) -> Result<Option<CheckpointArchive>> {
    let url = loaded.config.trainer.common.checkpoint_url.as_deref();
    Ok(url.map(CheckpointArchive::open).transpose()?)
}

/// The directory that is to be resumed and is not there.
async fn missing(
    loaded: &LoadedConfig,
    options: &TrainOptions,
    archive: &CheckpointArchive,
) -> Result<Option<PathBuf>> {
    if let Some(directory) = &options.run_directory {
        let is_there = [STORE_FILE, CONFIG_FILE].iter().any(|file| directory.join(file).exists());
        let directory = std::path::absolute(directory).context("the working directory is gone")?;
        return Ok((!is_there).then_some(directory));
    }
    let (parent, prefix) = (loaded.resolve(&loaded.config.run.directory), run_prefix(loaded));
    if parent.exists() && latest_run(&parent, &prefix)?.is_some() {
        return Ok(None);
    }
    let runs = archive.runs().await?;
    let number = |run: &String| run.strip_prefix(&prefix)?.parse::<u64>().ok();
    let latest = runs.iter().filter_map(number).max();
    Ok(latest.map(|number| parent.join(format!("{prefix}{number}"))))
}

/// Makes the directory of a run that was uploaded, with the file that says which it is.
async fn bring_back(loaded: &LoadedConfig, directory: &Path, archive: &CheckpointArchive) -> Result<()> {
    let run_id = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let run = archive.of_run(&run_id);
    let Some(file) = run.run_file().await? else { return Ok(()) };
    let place = run.place();
    let mut config: Value = serde_json::from_str(&file).with_context(|| format!("{place}/{CONFIG_FILE}"))?;
    // Of the machine that the run was on before.
    let from = std::path::absolute(&loaded.directory).unwrap_or_else(|_| loaded.directory.clone());
    config[CONFIG_DIRECTORY] = json!(from);
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    write_whole(&directory.join(CONFIG_FILE), &format!("{config:#}\n"))?;
    tracing::info!(directory = %directory.display(), from = place, "the run's directory is made anew");
    Ok(())
}
