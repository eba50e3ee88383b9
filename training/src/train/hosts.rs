//! The model hosts of a run: where they read new weights, and how they are woken at its end.

use anyhow::Result;
use fulgurite_backends::SharedGpu;

/// Name of the directory in a run's own from which remote hosts read new weights.
pub(super) const PUBLISHED_WEIGHTS: &str = "published";

/// Wakes the hosts that a run's learner has had asleep.
pub(super) async fn close(gpu: Option<&SharedGpu>) -> Result<()> {
    let Some(gpu) = gpu else { return Ok(()) };
    let woken = gpu.close().await;
    if let Err(error) = &woken {
        tracing::error!(%error, "a model host is left asleep");
    }
    Ok(woken?)
}
