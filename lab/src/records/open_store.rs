//! Which store a config names, and how it is opened.

use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use fulgurite_store::{Store, StoreError, StoreOptions, redact_url};

use fulgurite_config::declarations::{DEFAULT_STORE, LoadedConfig, StoreConfig, Synchronous};
use fulgurite_config::seconds::seconds;

/// The store that a config names, seen from the config's directory.
pub fn store_url(loaded: &LoadedConfig) -> String {
    let url = loaded.config.store.url.clone().unwrap_or_else(|| DEFAULT_STORE.to_owned());
    match url.strip_prefix("sqlite://") {
        Some(path) => format!("sqlite://{}", loaded.resolve(path.as_ref()).display()),
        None => url,
    }
}

/// Opens a store, creating what is missing.
pub async fn open_store(url: &str, config: &StoreConfig) -> Result<Store> {
    let synchronous = match config.synchronous {
        Synchronous::Full => fulgurite_store::Synchronous::Full,
        Synchronous::Normal => fulgurite_store::Synchronous::Normal,
    };
    let patience = match config.patience_seconds {
        0.0 => Duration::ZERO,
        given => seconds("store.patience_seconds", given)
            .map_err(|error| anyhow!("{error} (0 fails at once while the database is away)"))?,
    };
    let options = StoreOptions { synchronous, patience, ..StoreOptions::default() };
    let explained = |error: StoreError| {
        if !error.is_passing() {
            return anyhow!(error);
        }
        let waited = patience.as_secs_f64();
        anyhow!(error).context(format!("no PostgreSQL server answered within {waited} s ([store] patience_seconds)"))
    };
    Store::open(url, options)
        .await
        .map_err(explained)
        .with_context(|| format!("cannot open the store {}", redact_url(url)))
}
