//! The model hosts of a run: where they read new weights, and how they are woken at its end.

use std::path::Path;

use anyhow::Result;
use fulgurite_backends::SharedGpu;
use fulgurite_config::declarations::LoadedConfig;
use fulgurite_config::models::ModelEntry;

use crate::models::open::{TrainedModel, claim_trainer};

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
    let trainer_lock = claim_trainer(model, loaded, &published)?;
    let mut opened = TrainedModel::open(model, model_directory, published, loaded)?;
    opened.trainer_lock = trainer_lock;
    if let Some(gpu) = &opened.gpu {
        gpu.prepare().await?;
    }
    Ok(opened)
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
