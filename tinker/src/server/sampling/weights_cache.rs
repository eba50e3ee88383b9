use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_backends::BackendError;
use tokio::sync::Mutex;

use crate::server::error::run_blocking;
use crate::server::host::{HostedModel, HostedWeights};

/// Weights that stay in memory beside those that are being sampled from: a model and its next few versions.
const CAPACITY: usize = 4;

/// The saved weights that were sampled from last, by their directories.
#[derive(Debug, Default)]
pub(crate) struct WeightsCache {
    recent: Mutex<VecDeque<(PathBuf, Arc<dyn HostedWeights>)>>,
}

impl WeightsCache {
    /// The weights of a directory, or of the adapter over `base` in it, read unless they are in memory.
    pub(crate) async fn get(
        &self,
        base: &Arc<dyn HostedModel>,
        directory: &Path,
    ) -> Result<Arc<dyn HostedWeights>, BackendError> {
        let mut recent = self.recent.lock().await;
        let found = recent.iter().position(|(known, _)| known == directory);
        let snapshot = match found.and_then(|index| recent.remove(index)) {
            Some((_, snapshot)) => snapshot,
            None => {
                let (base, directory) = (base.clone(), directory.to_path_buf());
                run_blocking(move || base.read_weights(&directory)).await?
            }
        };
        keep(&mut recent, directory, snapshot.clone());
        Ok(snapshot)
    }

    /// Keeps weights that will most likely be sampled from next.
    pub(crate) async fn put(&self, directory: &Path, snapshot: Arc<dyn HostedWeights>) {
        keep(&mut *self.recent.lock().await, directory, snapshot);
    }

    /// Forgets weights that were deleted.
    pub(crate) async fn evict(&self, directory: &Path) {
        self.recent.lock().await.retain(|(known, _)| known != directory);
    }
}

fn keep(recent: &mut VecDeque<(PathBuf, Arc<dyn HostedWeights>)>, directory: &Path, snapshot: Arc<dyn HostedWeights>) {
    recent.push_front((directory.to_path_buf(), snapshot));
    recent.truncate(CAPACITY);
}
