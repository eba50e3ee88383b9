use std::sync::Arc;

use async_trait::async_trait;

use crate::{BackendError, NewWeights, Sampler};

/// Whoever new weights are put behind: a sampler, or a server that has one.
#[async_trait]
pub trait WeightsReceiver: Send + Sync + 'static {
    /// Has requests that arrive from now on sampled from these weights, as [`Sampler::load_weights`] does.
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError>;
}

#[async_trait]
impl<S: Sampler + ?Sized> WeightsReceiver for Arc<S> {
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        Sampler::load_weights(self.as_ref(), weights).await
    }
}
