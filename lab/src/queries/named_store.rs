//! The store that somebody names: by its URL, by a run, or by a config.

use std::env::VarError;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_store::{Store, redact_url};

use crate::records;
use crate::records::open_store::store_url;
use crate::records::run_files::STORE_FILE;
use crate::runs::registry;

/// Names a store where nothing else does. To a parser of command lines it would be an argument like `--store`, which is refused
/// next to `--run` and `--config`.
const VARIABLE: &str = "FULGURITE_STORE";

/// What names a store; the first that is there counts.
#[derive(Clone, Debug, Default)]
pub struct NamedStore {
    /// Its URL.
    pub url: Option<String>,
    /// A run that is recorded in it: its directory, or its name below `runs/`.
    pub run: Option<PathBuf>,
    /// The file of a config that names it.
    pub config: Option<PathBuf>,
}

impl NamedStore {
    /// The store's URL.
    ///
    /// # Errors
    /// If the run's files or the config cannot be read.
    pub fn url(&self) -> Result<String> {
        let Self { url, run, config } = self;
        Ok(match (url, run, config) {
            (Some(url), _, _) => url.clone(),
            (None, Some(run), _) => match registry::directory(run) {
                Ok(directory) => records::store_of_run(&directory)?,
                Err(_) => run_database(run),
            },
            (None, None, Some(file)) => store_url(&LoadedConfig::read(Some(file))?),
            (None, None, None) => match std::env::var(VARIABLE) {
                Ok(url) => url,
                Err(VarError::NotPresent) => store_url(&LoadedConfig::read(None)?),
                Err(VarError::NotUnicode(_)) => bail!("{VARIABLE} is not UTF-8"),
            },
        })
    }

    /// Opens the store for reading.
    ///
    /// # Errors
    /// If it cannot be found or opened.
    pub async fn open(&self) -> Result<Store> {
        let url = self.url()?;
        Store::open_read_only(&url)
            .await
            .with_context(|| format!("cannot open the store {} (--store, --run, --config)", redact_url(&url)))
    }
}

/// The URL of the database in a run's own directory.
pub fn run_database(run: &Path) -> String {
    format!("sqlite://{}", run.join(STORE_FILE).display())
}
