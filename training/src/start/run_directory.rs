//! Where a run is, and what its directory and its record say of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_lab::records::run_directory::{
    CONFIG_DIRECTORY, RUN_DIRECTORY, SERVERS_STORE, is_run, run_file, write_whole,
};
use fulgurite_lab::records::run_files::{CONFIG_FILE, STORE_FILE};
use fulgurite_trainer::Record;
use fulgurite_types::NewRun;
use serde_json::{Value, json};
use uuid::Uuid;

use super::options::TrainOptions;

/// The directory of a run, and what was made for it.
#[derive(Debug)]
pub(crate) struct RunDirectory {
    pub path: PathBuf,
    /// Directories that were missing, each before the one that it is in.
    made: Vec<PathBuf>,
}

impl RunDirectory {
    /// One that is there.
    fn found(path: PathBuf) -> Self {
        Self { path, made: Vec::new() }
    }

    /// Takes back what was made for a run that does not begin, as far as nobody has put anything there.
    pub(crate) fn unmake(self) {
        for made in self.made {
            if std::fs::remove_dir(&made).is_err() {
                return;
            }
        }
    }
}

/// Makes a directory; gives those that were missing.
fn make(directory: &Path) -> Result<Vec<PathBuf>> {
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.exists();
    let missing = directory.ancestors().take_while(is_missing).map(Path::to_owned).collect();
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    Ok(missing)
}

/// A new directory for a new run; the one with the greatest number for `--resume`.
pub(crate) fn run_directory(loaded: &LoadedConfig, options: &TrainOptions) -> Result<RunDirectory> {
    if let Some(directory) = &options.run_directory {
        match (holds_run(directory), options.resumes()) {
            (true, false) => bail!("{} holds a run already; --resume goes on with it", directory.display()),
            (false, true) => bail!("{} holds no run to resume", directory.display()),
            _ => {}
        }
        let path = std::path::absolute(directory).context("the working directory is gone")?;
        let made = make(&path)?;
        return Ok(RunDirectory { path, made });
    }
    let parent = loaded.resolve(&loaded.config.run.directory);
    let mut made = make(&parent)?;
    let prefix = run_prefix(loaded);
    if options.resumes() {
        let latest = latest_run(&parent, &prefix)?;
        return match latest {
            Some(latest) => Ok(RunDirectory::found(parent.join(format!("{prefix}{latest}")))),
            None => {
                RunDirectory { path: PathBuf::new(), made }.unmake();
                Err(anyhow!("{} holds no run {prefix}N to resume", parent.display()))
            }
        };
    }
    // Two runs that start at once must not take one directory: whoever creates it has it.
    let mut number = latest_of(&parent, &prefix)?.map_or(1, |latest| latest + 1);
    loop {
        let path = parent.join(format!("{prefix}{number}"));
        match std::fs::create_dir(&path) {
            Ok(()) => {
                made.insert(0, path.clone());
                return Ok(RunDirectory { path, made });
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error).with_context(|| format!("cannot create {}", path.display())),
        }
    }
}

/// Whether a new run cannot have a directory, since one is there.
pub(crate) fn holds_run(directory: &Path) -> bool {
    [STORE_FILE, CONFIG_FILE].iter().any(|file| directory.join(file).exists())
}

/// The directory of the run that `--resume` goes on with, if that is here.
pub(crate) fn resumable_directory(loaded: &LoadedConfig, run_directory: Option<&Path>) -> Option<PathBuf> {
    let directory = match run_directory {
        Some(directory) => std::path::absolute(directory).ok()?,
        None => {
            let (parent, prefix) = (loaded.resolve(&loaded.config.run.directory), run_prefix(loaded));
            let latest = latest_run(&parent, &prefix).ok()??;
            parent.join(format!("{prefix}{latest}"))
        }
    };
    is_run(&directory).then_some(directory)
}

/// What the names of the runs of a config and seed begin with; a number follows.
pub(crate) fn run_prefix(loaded: &LoadedConfig) -> String {
    format!("{}-seed-{}-", loaded.config.run.name, loaded.config.run.seed)
}

/// The greatest number of those that are there.
fn latest_of(parent: &Path, prefix: &str) -> Result<Option<u64>> {
    Ok(numbers_of(parent, prefix)?.into_iter().max())
}

/// The greatest number of those that hold a run. A process that was killed as it began may have left an empty directory.
pub(crate) fn latest_run(parent: &Path, prefix: &str) -> Result<Option<u64>> {
    let numbers = numbers_of(parent, prefix)?;
    Ok(numbers.into_iter().filter(|number| holds_run(&parent.join(format!("{prefix}{number}")))).max())
}

fn numbers_of(parent: &Path, prefix: &str) -> Result<Vec<u64>> {
    let entries = std::fs::read_dir(parent).with_context(|| format!("cannot read {}", parent.display()))?;
    let mut numbers = Vec::new();
    for entry in entries {
        let name = entry.with_context(|| format!("cannot read {}", parent.display()))?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u64>().ok()));
    }
    Ok(numbers)
}

/// The id that a run gets from its directory, unless it is taken.
pub(crate) fn id_of_directory(directory: &Path) -> String {
    directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// What the file of a new run's directory says. `servers_store` is that of the server beside which it trains.
pub(crate) fn new_run_file(
    loaded: &LoadedConfig,
    directory: &Path,
    run_id: &str,
    servers_store: Option<&str>,
) -> Value {
    let mut file = json!({
        "run_id": run_id,
        "instance": Uuid::now_v7().to_string(),
        CONFIG_DIRECTORY: std::path::absolute(&loaded.directory).unwrap_or_else(|_| loaded.directory.clone()),
        RUN_DIRECTORY: std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
    });
    if let (Some(all), Value::Object(own)) = (file.as_object_mut(), json!(loaded.config)) {
        all.extend(own);
        all.extend(servers_store.map(|url| (SERVERS_STORE.to_owned(), Value::from(url))));
    }
    file
}

/// Writes the file that says which run a directory holds.
pub(crate) fn write_run_file(directory: &Path, file: &Value) -> Result<()> {
    write_whole(&directory.join(CONFIG_FILE), &format!("{file:#}\n"))
}

/// The record of a run, as its directory's file has it.
pub(crate) fn new_run(loaded: &LoadedConfig, run_id: &str, file: Value) -> NewRun {
    NewRun {
        run_id: run_id.to_owned(),
        name: loaded.config.run.name.clone(),
        config: file,
        seed: loaded.config.run.seed,
    }
}

/// The id of a run that goes on, and its record if that is missing. A run is known by what its directory says, wherever that
/// is.
pub(crate) async fn go_on_with_run(
    record: &dyn Record,
    servers_store: Option<&str>,
    loaded: &LoadedConfig,
    directory: &Path,
) -> Result<String> {
    let path = directory.join(CONFIG_FILE);
    let (run_id, file) = if path.exists() {
        let file = run_file(directory)?;
        let run_id = file["run_id"].as_str().with_context(|| format!("{} names no run_id", path.display()))?;
        (run_id.to_owned(), file)
    } else {
        let run_id = id_of_directory(directory);
        let file = new_run_file(loaded, directory, &run_id, servers_store);
        write_run_file(directory, &file)?;
        (run_id, file)
    };
    // Missing although the file is there: the process died between the two.
    if record.run(&run_id).await?.is_none() {
        let created = record.create_run(new_run(loaded, &run_id, file)).await;
        created.with_context(|| format!("cannot begin run {run_id}"))?;
    }
    Ok(run_id)
}
