use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use fulgurite_backends::{KeptModel, Sampler};

use crate::models::served_model::SampledModel;

/// Adapters that may be loaded at a time.
pub(crate) const MOST_ADAPTERS: usize = 64;
/// Characters of an adapter's name.
const LONGEST_NAME: usize = 256;

/// Adapters that were loaded over served models while the server runs, each a model of its own name.
#[derive(Default)]
pub(crate) struct LoadedAdapters {
    loaded: RwLock<BTreeMap<String, LoadedAdapter>>,
    /// Held while one is loaded, so that of two loads of a name the second finds the first.
    turn: tokio::sync::Mutex<()>,
}

/// An adapter, and where it was read from.
#[derive(Clone)]
pub(crate) struct LoadedAdapter {
    pub(crate) model: KeptModel,
    pub(crate) directory: PathBuf,
}

/// Whether an adapter may take the place of one by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SameName {
    Refuse,
    Replace,
}

/// Why an adapter was not loaded, or not unloaded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdapterError {
    #[error(
        "The lora adapter '{0}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' \
         to True."
    )]
    AlreadyLoaded(String),
    #[error("Loading lora {name} failed: {message}")]
    Refused { name: String, message: String },
    #[error("Loading lora {name} failed: No adapter found for {}", directory.display())]
    NoDirectory { name: String, directory: PathBuf },
    #[error("The lora adapter '{0}' cannot be found.")]
    Unknown(String),
}

impl LoadedAdapters {
    /// The adapter of that name.
    pub(crate) fn get(&self, name: &str) -> Option<LoadedAdapter> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> Vec<LoadedAdapter> {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Loads the adapter of a directory over a model.
    pub(crate) async fn load(
        &self,
        base: &SampledModel,
        name: &str,
        directory: &Path,
        same_name: SameName,
    ) -> Result<(), AdapterError> {
        let refused = |message: String| AdapterError::Refused { name: name.to_owned(), message };
        if name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(refused(format!("its name must be at most {LONGEST_NAME} printable characters")));
        }
        let _turn = self.turn.lock().await;
        let (is_known, count) = {
            let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
            (loaded.contains_key(name), loaded.len())
        };
        if is_known && same_name == SameName::Refuse {
            return Err(AdapterError::AlreadyLoaded(name.to_owned()));
        }
        if !is_known && count >= MOST_ADAPTERS {
            return Err(refused(format!("{count} adapters are loaded already; unload one first")));
        }
        if !tokio::fs::try_exists(directory.join("adapter_config.json")).await.unwrap_or(false) {
            return Err(AdapterError::NoDirectory { name: name.to_owned(), directory: directory.to_owned() });
        }
        let sampler: Arc<dyn Sampler> =
            Arc::clone(&base.sampler).with_adapter(directory).await.map_err(|error| refused(error.to_string()))?;
        let model = KeptModel { name: name.to_owned(), base_model: base.name.clone(), sampler };
        let adapter = LoadedAdapter { model, directory: directory.to_owned() };
        self.loaded.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), adapter);
        tracing::info!(name, directory = %directory.display(), base = base.name, "an adapter is loaded");
        Ok(())
    }

    /// Forgets an adapter. Calls under way keep it to their end.
    pub(crate) fn unload(&self, name: &str) -> Result<(), AdapterError> {
        let removed = self.loaded.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        removed.map(drop).ok_or_else(|| AdapterError::Unknown(name.to_owned()))
    }
}
