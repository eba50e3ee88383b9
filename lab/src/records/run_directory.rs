//! Where the files of a run are, and what they say of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use serde_json::Value;

use crate::records::open_store::store_url;
use crate::records::run_files::{CONFIG_FILE, STORE_FILE, fill_seed};

/// The keys in the file of a run's configuration that are of the run, and not of its config.
const RUN_KEYS: [&str; 7] =
    ["run_id", "instance", "kind", "evaluation", CONFIG_DIRECTORY, RUN_DIRECTORY, SERVERS_STORE];

/// The key in that file of the directory that relative paths start from.
pub const CONFIG_DIRECTORY: &str = "config_directory";

/// The key in that file of the directory that the run was begun in, where the page looks for its files.
pub const RUN_DIRECTORY: &str = "run_directory";

/// The key in that file of the store of the server beside which the run trains.
pub const SERVERS_STORE: &str = "servers_store";

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

/// The id of the run in a directory: its file says it, and a run that has none yet is called like its directory.
pub fn run_id_of(directory: &Path) -> String {
    let recorded = run_file(directory).ok().and_then(|file| file["run_id"].as_str().map(str::to_owned));
    recorded.unwrap_or_else(|| directory.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Whether files are in a run's directory, as it is now or was when the run began.
pub fn is_in_run(path: &Path, directory: &Path) -> bool {
    let started_in = run_file(directory).ok().and_then(|file| file[RUN_DIRECTORY].as_str().map(PathBuf::from));
    let now = std::path::absolute(directory).ok();
    [started_in, now].into_iter().flatten().any(|directory| path.starts_with(directory))
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
    // A directory without a config names no models.
    let text = std::fs::read_to_string(directory.join(CONFIG_FILE)).ok();
    let config: Value = text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or(Value::Null);
    let seed = config["run"]["seed"].as_u64().unwrap_or_default();
    let own = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    // Runs of before did not say where they were started; most are in a directory beside their config.
    let stated = config[CONFIG_DIRECTORY].as_str().map(PathBuf::from);
    let bases: Vec<PathBuf> = stated.into_iter().chain(own.ancestors().take(3).map(Path::to_owned)).collect();
    let models = config["models"].as_array().into_iter().flatten().filter_map(|model| model["path"].as_str());
    models.flat_map(|path| bases.iter().map(move |base| base.join(fill_seed(Path::new(path), seed)))).collect()
}
