use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use fulgurite_backends::{BackendError, WeightsVersion};
use tokio::sync::Mutex;

use crate::EmbeddedSampler;
use crate::published::WeightsSnapshot;

/// Weights that stay in memory beside those that are being sampled from: a model and its next few versions.
const KEPT: usize = 4;

/// The saved weights that were sampled from last, by their directories.
#[derive(Debug, Default)]
pub(super) struct WeightsCache {
    recent: Mutex<VecDeque<(PathBuf, WeightsSnapshot)>>,
}

impl WeightsCache {
    /// The weights of a directory, read unless they are in memory.
    pub(super) async fn get(
        &self,
        sampler: &EmbeddedSampler,
        directory: &Path,
    ) -> Result<WeightsSnapshot, BackendError> {
        let mut recent = self.recent.lock().await;
        let found = recent.iter().position(|(known, _)| known == directory);
        let snapshot = match found.and_then(|index| recent.remove(index)) {
            Some((_, snapshot)) => snapshot,
            None => sampler.read_snapshot(directory, WeightsVersion::default()).await?,
        };
        keep(&mut recent, directory, snapshot.clone());
        Ok(snapshot)
    }

    /// Keeps weights that will most likely be sampled from next.
    pub(super) async fn put(&self, directory: &Path, snapshot: WeightsSnapshot) {
        keep(&mut *self.recent.lock().await, directory, snapshot);
    }

    /// Forgets weights that were deleted.
    pub(super) async fn forget(&self, directory: &Path) {
        self.recent.lock().await.retain(|(known, _)| known != directory);
    }
}

fn keep(recent: &mut VecDeque<(PathBuf, WeightsSnapshot)>, directory: &Path, snapshot: WeightsSnapshot) {
    recent.push_front((directory.to_path_buf(), snapshot));
    recent.truncate(KEPT);
}
