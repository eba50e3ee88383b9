//! Where the files of a run are, and what they say of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use fulgurite_trainer::Record;
use fulgurite_types::NewRun;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::cli::arguments::TrainArguments;
use crate::config::declarations::LoadedConfig;
use crate::serve::command::store_url;
use crate::train::run_files::{CONFIG_FILE, STORE_FILE, fill_seed};

/// The keys in the file of a run's configuration that are of the run, and not of its config.
const RUN_KEYS: [&str; 7] =
    ["run_id", "instance", "kind", "evaluation", CONFIG_DIRECTORY, RUN_DIRECTORY, SERVERS_STORE];

/// The key in that file of the directory that relative paths start from.
pub const CONFIG_DIRECTORY: &str = "config_directory";

/// The key in that file of the directory that the run was begun in, where the page looks for its files.
const RUN_DIRECTORY: &str = "run_directory";

/// The key in that file of the store of the server beside which the run trains.
const SERVERS_STORE: &str = "servers_store";

/// Whether a directory is a run's.
pub fn is_run(directory: &Path) -> bool {
    // A model directory has a file of that name as well.
    run_file(directory).is_ok_and(|config| config["run_id"].is_string())
}

/// What the file of a run's configuration says.
pub fn run_file(directory: &Path) -> Result<Value> {
    let path = directory.join(CONFIG_FILE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// What names a run alone, whatever others are called; runs of before have their id alone.
pub fn run_instance(directory: &Path) -> Result<String> {
    let file = run_file(directory)?;
    let of = |key: &str| file[key].as_str().map(str::to_owned);
    Ok(of("instance").or_else(|| of("run_id")).unwrap_or_default())
}

/// The config that a run was begun with.
pub fn config_of_run(directory: &Path) -> Result<LoadedConfig> {
    let mut config = run_file(directory)?;
    let path = std::path::absolute(directory.join(CONFIG_FILE)).context("the working directory is gone")?;
    if !config["run_id"].is_string() {
        bail!("{} is of no run: it names no run_id", path.display());
    }
    let from = config[CONFIG_DIRECTORY].as_str().map(PathBuf::from);
    let from = from.with_context(|| format!("{} does not say where the run was started", path.display()))?;
    if let Value::Object(keys) = &mut config {
        RUN_KEYS.iter().for_each(|key| {
            keys.remove(*key);
        });
    }
    let config = serde_json::from_value(config).with_context(|| path.display().to_string())?;
    Ok(LoadedConfig { config, directory: from, file: Some(path) })
}

/// The store of a run: a file in its directory, unless the config names another.
pub fn run_store_url(loaded: &LoadedConfig, run_directory: &Path) -> String {
    match &loaded.config.store.url {
        Some(_) => store_url(loaded),
        None => own_store_url(run_directory),
    }
}

/// The URL of the store that a run is recorded in: a file in its directory, the one that its config names, or that of the server
/// beside which it trains. A password in a server's URL is not known here; PostgreSQL's own `PGPASSWORD` or password file has it.
pub fn store_of_run(directory: &Path) -> Result<String> {
    match run_file(directory)?[SERVERS_STORE].as_str() {
        Some(url) => Ok(url.to_owned()),
        None => Ok(run_store_url(&config_of_run(directory)?, directory)),
    }
}

/// Whether a run is recorded in a file in its directory, where no other run is.
pub fn has_own_store(directory: &Path) -> Result<bool> {
    Ok(store_of_run(directory)? == own_store_url(directory))
}

fn own_store_url(run_directory: &Path) -> String {
    format!("sqlite://{}", run_directory.join(STORE_FILE).display())
}

/// Writes a file that is whole or not there.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Directories in which the tokenizers of a run's models may be.
pub fn run_tokenizers(directory: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(directory.join(CONFIG_FILE)).unwrap_or_default();
    let config: Value = serde_json::from_str(&text).unwrap_or_default();
    let seed = config["run"]["seed"].as_u64().unwrap_or_default();
    let own = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    // Runs of before did not say where they were started; most are in a directory beside their config.
    let said = config[CONFIG_DIRECTORY].as_str().map(PathBuf::from);
    let bases: Vec<PathBuf> = said.into_iter().chain(own.ancestors().take(3).map(Path::to_owned)).collect();
    let models = config["models"].as_array().into_iter().flatten().filter_map(|model| model["path"].as_str());
    models.flat_map(|path| bases.iter().map(move |base| base.join(fill_seed(Path::new(path), seed)))).collect()
}

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
