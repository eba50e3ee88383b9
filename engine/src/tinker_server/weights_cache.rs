use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_backends::BackendError;
use fulgurite_types::WeightsVersion;
use tokio::sync::Mutex;

use super::server::run_blocking;
use crate::published::WeightsSnapshot;
use crate::weights::Weights;

/// Weights that stay in memory beside those that are being sampled from: a model and its next few versions.
const KEPT: usize = 4;

/// The saved weights that were sampled from last, by their directories.
#[derive(Debug, Default)]
pub(super) struct WeightsCache {
    recent: Mutex<VecDeque<(PathBuf, WeightsSnapshot)>>,
}

impl WeightsCache {
    /// The weights of a directory, or of the adapter over `base` in it, read unless they are in memory.
    pub(super) async fn get(&self, base: &Arc<Weights>, directory: &Path) -> Result<WeightsSnapshot, BackendError> {
        let mut recent = self.recent.lock().await;
        let found = recent.iter().position(|(known, _)| known == directory);
        let snapshot = match found.and_then(|index| recent.remove(index)) {
            Some((_, snapshot)) => snapshot,
            None => {
                let (base, directory) = (base.clone(), directory.to_path_buf());
                run_blocking(move || WeightsSnapshot::read(&directory, &base, WeightsVersion::default())).await?
            }
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
