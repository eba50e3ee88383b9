//! The model hosts of a run: where they read new weights, and how they are woken at its end.

use std::path::Path;

use anyhow::{Context, Result, bail};
use fulgurite_backends::{SharedGpu, file_digest};
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::model_adapter::ADAPTER_WEIGHTS;
use fulgurite_config::models::ModelEntry;
use fulgurite_engine::keep_adapter;
use fulgurite_lab::records::run_directory::run_file;
use fulgurite_lab::records::run_files::{CONFIG_FILE, START_ADAPTER};

use crate::models::open::{TrainedModel, refuse_used_trainer};

/// Name of the directory in a run's own from which remote hosts read new weights.
pub(super) const PUBLISHED_WEIGHTS: &str = "published";

/// Opens the model that a run trains; a GPU that it shares with its hosts is the hosts' then.
pub(super) async fn open_trained(
    loaded: &LoadedConfig,
    model: &ModelEntry,
    model_directory: &Path,
    run_directory: &Path,
) -> Result<TrainedModel> {
    let published = run_directory.join(PUBLISHED_WEIGHTS);
    refuse_used_trainer(model, loaded, &published)?;
    let model = with_kept_adapter(model, run_directory)?;
    let opened = TrainedModel::open(&model, model_directory, published, loaded)?;
    if let Some(gpu) = &opened.gpu {
        gpu.prepare().await?;
    }
    Ok(opened)
}

/// A model that goes on from an adapter, which the run keeps as it began with it.
///
/// # Errors
/// If the adapter cannot be copied, or is not the one that the run began with.
pub(super) fn with_kept_adapter(model: &ModelEntry, run_directory: &Path) -> Result<ModelEntry> {
    let Some(adapter) = &model.adapter else { return Ok(model.clone()) };
    let kept = run_directory.join(START_ADAPTER);
    if !kept.exists() {
        keep_adapter(adapter, &kept).with_context(|| format!("model `{}`", model.name))?;
    }
    let weights = kept.join(ADAPTER_WEIGHTS);
    let digest = file_digest(&weights).with_context(|| format!("cannot read {}", weights.display()))?;
    if let Some(began) = recorded_digest(model, run_directory)?.filter(|began| *began != digest) {
        bail!(
            "model `{}`: the run began with an adapter whose {ADAPTER_WEIGHTS} has the digest {began}, but that of {} is {digest}",
            model.name,
            adapter.display()
        );
    }
    Ok(ModelEntry { adapter: Some(kept), ..model.clone() })
}

/// The digest of the adapter that the run's record has.
fn recorded_digest(model: &ModelEntry, run_directory: &Path) -> Result<Option<String>> {
    if !run_directory.join(CONFIG_FILE).exists() {
        return Ok(None);
    }
    let file = run_file(run_directory)?;
    let models = file["models"].as_array().map(Vec::as_slice).unwrap_or_default();
    let own = models.iter().find(|recorded| recorded["name"] == model.name.as_str());
    Ok(own.and_then(|own| Some(own["adapter_sha256"].as_str()?.to_owned())))
}

/// Wakes the hosts that a run's learner has had asleep.
pub(super) async fn close(gpu: Option<&SharedGpu>) -> Result<()> {
    let Some(gpu) = gpu else { return Ok(()) };
    let woken = gpu.close().await;
    if let Err(error) = &woken {
        tracing::error!(%error, "a model host is left asleep");
    }
    Ok(woken?)
}
