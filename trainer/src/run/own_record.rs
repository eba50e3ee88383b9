//! Whether the record that a run is to go on with is its own.

use std::path::Path;

use super::files::metrics_file::MetricsFile;
use crate::{Record, TrainError};

/// Where the checkpoints of a run are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeptCheckpointsAt {
    /// In its directory alone.
    Directory,
    /// In an object store too, with which the record comes back.
    ObjectStore,
}

/// Refuses to go on with a run whose steps are in another store: it would begin anew, and forget them. It only looks.
///
/// # Errors
/// [`TrainError::OtherStore`] if the run's directory tells of steps, and the record of none.
pub async fn require_steps(
    record: &dyn Record,
    run_id: &str,
    directory: &Path,
    checkpoints: KeptCheckpointsAt,
) -> Result<(), TrainError> {
    let path = directory.join("metrics.jsonl");
    let steps = MetricsFile::steps(&path).len();
    if steps == 0 || checkpoints == KeptCheckpointsAt::ObjectStore || !record.steps(run_id).await?.is_empty() {
        return Ok(());
    }
    Err(TrainError::OtherStore { run_id: run_id.to_owned(), path, steps })
}
