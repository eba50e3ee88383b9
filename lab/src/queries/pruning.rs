//! Rollouts that are deleted, a batch at a time.

use fulgurite_store::{PruneFilter, Pruned, Store, StoreError};

/// Deletes every rollout that a filter means. `progress` is told after each batch what is deleted so far.
///
/// # Errors
/// If the store does not answer.
pub async fn prune_all(
    store: &Store,
    filter: &PruneFilter,
    progress: &mut dyn FnMut(Pruned),
) -> Result<Pruned, StoreError> {
    let mut deleted = Pruned::default();
    loop {
        let batch = store.housekeeping().prune(filter.clone()).await?;
        if batch.rollouts == 0 {
            return Ok(deleted);
        }
        deleted += batch;
        progress(deleted);
    }
}
