//! The weights that a server's models were started with: which ones they are, and the version that the store has for them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use fulgurite_backends::weights_fingerprint;
use fulgurite_proxy::SampledModel;
use fulgurite_store::Store;
use fulgurite_types::{NewNamedWeights, WeightsId, WeightsVersion};

use crate::models::model_directory::holds_weights;
use crate::models::open::OpenModel;

/// Gives each model's own weights their version: the one by which its sampler knows them, or another where that names other
/// weights in this store. Those of hosts that do not say yet what they have get none. A store that takes nothing keeps no
/// server from starting.
pub async fn name_base_weights(store: &Store, models: &[OpenModel]) -> BTreeMap<String, WeightsId> {
    let mut base_weights = BTreeMap::new();
    for OpenModel { served, directory, .. } in models {
        let (Some(model), Some(directory)) = (served.sampled(), directory) else { continue };
        match name_weights_of(store, model, directory).await {
            Ok(weights_id) => base_weights.extend(weights_id.map(|weights_id| (model.name.clone(), weights_id))),
            Err(error) => tracing::warn!(
                model = model.name,
                error = format!("{error:#}"),
                "which weights the model has of its own is not recorded"
            ),
        }
    }
    base_weights
}

async fn name_weights_of(store: &Store, model: &SampledModel, directory: &Path) -> Result<Option<WeightsId>> {
    let label = model.sampler.weights_version();
    if label.is_none() && !holds_weights(directory) {
        return Ok(None);
    }
    let files = directory.to_owned();
    let fingerprint = tokio::task::spawn_blocking(move || weights_fingerprint(&files)).await;
    let weights_id = fingerprint.context("the task that reads the files ended")??;
    let Some(WeightsVersion(preferred_version)) = label else { return Ok(Some(weights_id)) };
    let new = NewNamedWeights::of_no_run(&model.name, weights_id, preferred_version);
    let version = store.weights().name(new).await?.version;
    if version != preferred_version {
        tracing::info!(
            model = model.name,
            version,
            "the model's own weights get a version that is free: {preferred_version} names others in this store"
        );
        model.sampler.label_weights(WeightsVersion(version));
    }
    Ok(Some(weights_id))
}
