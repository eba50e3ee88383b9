use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use fulgurite_types::{Datum, WeightsVersion};

use crate::{
    AdamParameters, BackendError, Comparisons, ForwardBackward, Learner, LossFunction, NewWeights, OptimizerStep,
    WeightsReceiver, WeightsSource,
};

/// A learner whose weights are sampled from elsewhere: it publishes them by writing a directory, which the sampler's
/// hosts read. They must see that directory under the same path.
pub struct PublishingLearner {
    learner: Arc<dyn Learner>,
    receiver: Box<dyn WeightsReceiver>,
    directory: PathBuf,
    source: fn(PathBuf) -> WeightsSource,
}

impl PublishingLearner {
    /// Gives what `learner` learns to `receiver`, through directories in `directory`. `source` says what the learner writes:
    /// [`WeightsSource::Model`] or [`WeightsSource::Adapter`].
    pub fn new(
        learner: Arc<dyn Learner>,
        receiver: impl WeightsReceiver,
        directory: PathBuf,
        source: fn(PathBuf) -> WeightsSource,
    ) -> Self {
        Self { learner, receiver: Box::new(receiver), directory, source }
    }

    /// Removes what was published before, by a process that died too: a host that comes back is given the newest.
    async fn clear(&self) -> Result<(), BackendError> {
        let wrong = |path: &Path, error: std::io::Error| BackendError::Files {
            path: path.to_owned(),
            message: format!("cannot be cleared of older weights: {error}"),
        };
        let mut entries = match tokio::fs::read_dir(&self.directory).await {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(wrong(&self.directory, error)),
        };
        while let Some(entry) = entries.next_entry().await.map_err(|error| wrong(&self.directory, error))? {
            tokio::fs::remove_dir_all(entry.path()).await.map_err(|error| wrong(&entry.path(), error))?;
        }
        Ok(())
    }
}

#[async_trait]
impl Learner for PublishingLearner {
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.forward(data).await
    }

    async fn keep_reference(&self) -> Result<(), BackendError> {
        self.learner.keep_reference().await
    }

    async fn forward_reference(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.forward_reference(data).await
    }

    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.learner.forward_backward(data, loss).await
    }

    async fn forward_backward_comparisons(
        &self,
        data: Arc<[Datum]>,
        comparisons: Arc<Comparisons>,
    ) -> Result<ForwardBackward, BackendError> {
        self.learner.forward_backward_comparisons(data, comparisons).await
    }

    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError> {
        self.learner.optimizer_step(parameters).await
    }

    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.save_checkpoint(directory).await
    }

    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.load_checkpoint(directory).await
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.save_weights(directory).await
    }

    async fn publish_weights(&self, version: WeightsVersion) -> Result<(), BackendError> {
        let directory = self.directory.join(format!("{:06}", version.0));
        self.clear().await?;
        self.learner.save_weights(&directory).await?;
        self.receiver.load_weights(&NewWeights { version, source: (self.source)(directory) }).await
    }
}
