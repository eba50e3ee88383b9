//! The tokenizers of recorded calls, by their fingerprints.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_hub::known_model_directory;
use fulgurite_renderers::{RenderError, Tokenizer};

use super::named_store::NamedStore;
use crate::records::run_tokenizers;
use crate::runs::registry;

/// Error for a tokenizer that is named and cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// Another tokenizer sampled the calls.
    #[error("{} is another tokenizer than that of this rollout's calls", path.display())]
    OtherCalls {
        /// The tokenizer.
        path: PathBuf,
    },
    /// It is a file of another kind.
    #[error("{} is neither a tokenizer.json nor a directory", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read the tokenizer {}", path.display())]
    Unreadable {
        /// The tokenizer.
        path: PathBuf,
        /// Why.
        source: RenderError,
    },
}

/// The tokenizer at a path, by its fingerprint. It must be that of some call.
///
/// # Errors
/// If it cannot be read, or is none of those that are `used`.
pub fn tokenizer_at(path: &Path, used: &[String]) -> Result<HashMap<String, Tokenizer>, TokenizerError> {
    let tokenizer = open_tokenizer(path)?;
    if !used.is_empty() && !used.iter().any(|fingerprint| fingerprint == tokenizer.fingerprint()) {
        return Err(TokenizerError::OtherCalls { path: path.to_owned() });
    }
    Ok(HashMap::from_iter([by_fingerprint(tokenizer)]))
}

/// The tokenizers that a run, or else the models of a config, have. One that is not there now only leaves ids without text.
///
/// # Errors
/// If the config cannot be read.
pub fn known_tokenizers(named: &NamedStore) -> Result<HashMap<String, Tokenizer>> {
    let places = match &named.run {
        Some(run) => run_tokenizers(&registry::directory(run).unwrap_or_else(|_| run.clone())),
        None => {
            let loaded = LoadedConfig::read(named.config.as_deref())?;
            loaded.config.models.iter().map(|model| loaded.resolve(&model.path)).collect()
        }
    };
    let directories = places.iter().filter_map(|path| known_model_directory(path));
    Ok(directories.filter_map(|path| Tokenizer::open(&path).ok()).map(by_fingerprint).collect())
}

fn by_fingerprint(tokenizer: Tokenizer) -> (String, Tokenizer) {
    (tokenizer.fingerprint().to_owned(), tokenizer)
}

fn open_tokenizer(path: &Path) -> Result<Tokenizer, TokenizerError> {
    let directory = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    if !path.is_dir() && path.file_name().is_none_or(|name| name != "tokenizer.json") {
        return Err(TokenizerError::OtherFile { path: path.to_owned() });
    }
    let unreadable = |source| TokenizerError::Unreadable { path: path.to_owned(), source };
    Tokenizer::open(directory).map_err(unreadable)
}
