//! Which weights a run starts from.

use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_backends::weights_fingerprint;
use fulgurite_types::WeightsId;
use sha2::{Digest, Sha256};

use fulgurite_config::models::{Backend, ModelEntry};
use fulgurite_config::redaction::public_part;

/// The identity of the weights that a run of this model starts from: those of its files, which an adapter that has learnt
/// nothing leaves as they are; or those that a service keeps under a name.
pub fn start_weights(entry: &ModelEntry, model_directory: &Path) -> Result<WeightsId> {
    if entry.backend != Backend::Tinker {
        return weights_fingerprint(model_directory).with_context(|| format!("model `{}`", entry.name));
    }
    let mut digest = Sha256::new_with_prefix("fulgurite weights, of a service\n");
    let urls = entry.urls.iter().map(|url| public_part(url));
    for text in urls.chain([entry.base_model.clone().unwrap_or_else(|| entry.name.clone())]) {
        digest.update((text.len() as u64).to_le_bytes());
        digest.update(text);
    }
    Ok(WeightsId::of_digest(digest.finalize().into()))
}
