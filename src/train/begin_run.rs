//! Where a new run is, and how its record begins.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::run_directory::{CONFIG_DIRECTORY, RUN_DIRECTORY, SERVERS_STORE, is_run};
use fulgurite_lab::records::run_files::{CONFIG_FILE, STORE_FILE};
use fulgurite_trainer::Record;
use fulgurite_types::NewRun;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::train::arguments::TrainArguments;

/// A new directory for a new run; the one with the greatest number for `--resume`.
pub fn run_directory(loaded: &LoadedConfig, arguments: &TrainArguments) -> Result<PathBuf> {
    if let Some(directory) = &arguments.run_directory {
        let exists = [STORE_FILE, CONFIG_FILE].iter().any(|file| directory.join(file).exists());
        match (exists, arguments.resume) {
            (true, false) => bail!("{} holds a run already; --resume goes on with it", directory.display()),
            (false, true) => bail!("{} holds no run to resume", directory.display()),
            _ => {}
        }
        std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
        return std::path::absolute(directory).context("the working directory is gone");
    }
    let parent = loaded.resolve(&loaded.config.run.directory);
    std::fs::create_dir_all(&parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let prefix = run_prefix(loaded);
    let latest = latest_of(&parent, &prefix)?;
    if arguments.resume {
        let latest = latest.ok_or_else(|| anyhow!("{} holds no run {prefix}N to resume", parent.display()))?;
        return Ok(parent.join(format!("{prefix}{latest}")));
    }
    // Two runs that start at once must not take one directory: whoever creates it has it.
    let mut number = latest.map_or(1, |latest| latest + 1);
    loop {
        let directory = parent.join(format!("{prefix}{number}"));
        match std::fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", directory.display())),
        }
    }
}

/// The directory of the run that `--resume` goes on with, if that is here.
pub fn resumable_directory(loaded: &LoadedConfig, run_directory: Option<&Path>) -> Option<PathBuf> {
    let directory = match run_directory {
        Some(directory) => std::path::absolute(directory).ok()?,
        None => {
            let (parent, prefix) = (loaded.resolve(&loaded.config.run.directory), run_prefix(loaded));
            let latest = latest_of(&parent, &prefix).ok()??;
            parent.join(format!("{prefix}{latest}"))
        }
    };
    is_run(&directory).then_some(directory)
}

/// What the names of the runs of a config and seed begin with; a number follows.
pub fn run_prefix(loaded: &LoadedConfig) -> String {
    format!("{}-seed-{}-", loaded.config.run.name, loaded.config.run.seed)
}

/// The greatest number of those that are there.
pub fn latest_of(parent: &Path, prefix: &str) -> Result<Option<u64>> {
    let entries = std::fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    let mut latest = None;
    for entry in entries {
        let name = entry.with_context(|| format!("cannot read {}", parent.display()))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u64>().ok());
        latest = latest.max(number);
    }
    Ok(latest)
}

/// The run's record: a new one, or the one to be resumed. A run is known by what its directory says, wherever that is.
pub async fn begin_run(
    record: &dyn Record,
    servers_store: Option<String>,
    loaded: &LoadedConfig,
    directory: &Path,
    resume: bool,
) -> Result<String> {
    let path = directory.join(CONFIG_FILE);
    let (run_id, config) = if resume && path.exists() {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let config: Value = serde_json::from_str(&text).with_context(|| path.display().to_string())?;
        let run_id = config["run_id"].as_str().with_context(|| format!("{} names no run_id", path.display()))?;
        (run_id.to_owned(), config)
    } else {
        let run_id = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut config = json!({
            "run_id": run_id,
            "instance": Uuid::now_v7().to_string(),
            CONFIG_DIRECTORY: std::path::absolute(&loaded.directory).unwrap_or_else(|_| loaded.directory.clone()),
            RUN_DIRECTORY: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
        });
        if let (Some(all), Value::Object(own)) = (config.as_object_mut(), json!(loaded.config)) {
            all.extend(own);
            all.extend(servers_store.map(|url| (SERVERS_STORE.to_owned(), Value::String(url))));
        }
        let fresh = path.with_extension("json.new");
        std::fs::write(&fresh, format!("{config:#}\n"))
            .and_then(|()| std::fs::rename(&fresh, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        (run_id, config)
    };
    // Missing although the file is there: the process died between the two.
    if record.run(&run_id).await?.is_none() || !resume {
        let name = loaded.config.run.name.clone();
        let run = NewRun { run_id: run_id.clone(), name, config, seed: loaded.config.run.seed };
        let created = record.create_run(run).await;
        created.with_context(|| format!("cannot begin run {run_id}, which its directory is named after"))?;
    }
    Ok(run_id)
}
