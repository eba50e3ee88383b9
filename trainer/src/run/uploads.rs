//! A run's checkpoints in an object store: put there once they are whole, and brought back where the directory, or the
//! record too, is gone.

use std::collections::BTreeMap;
use std::path::Path;

use fulgurite_backends::listed_digests;
use fulgurite_types::{CheckpointRecord, Step, StepRecord};
use serde_json::{Map, Value};

use super::files::digests::file_digests;
use super::gate;
use crate::archive::Manifest;
use crate::{Record, RunArchive, TrainError};

/// Name of the folder of checkpoints, in a run's directory and there.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// The metric that says whether a step's checkpoint was uploaded.
pub(super) const UPLOADED: &str = "checkpoint/uploaded";

/// A checkpoint that is to be uploaded.
pub(super) struct Upload<'u> {
    /// As its record has it.
    pub(super) record: &'u CheckpointRecord,
    /// The weights that it holds.
    pub(super) weights_version: u64,
    /// Steps that are recorded before it.
    pub(super) steps: &'u [Step],
    /// Metrics of the step that it belongs to, of one that is not recorded yet.
    pub(super) metrics: Option<&'u Map<String, Value>>,
}

/// Puts a checkpoint there.
pub(super) async fn upload(archive: &RunArchive, run: &Path, upload: Upload<'_>) -> Result<(), TrainError> {
    let Upload { record, weights_version, steps, metrics } = upload;
    let recorded = steps.iter().filter_map(|step| step.metrics.as_object());
    let manifest = Manifest {
        state: record.state.clone(),
        weights_version,
        steps: recorded.chain(metrics).cloned().collect(),
        ..Manifest::default()
    };
    put(archive, run, &record.directory, manifest).await
}

/// Puts a directory there by its name in the run's.
pub(super) async fn put(archive: &RunArchive, run: &Path, name: &str, manifest: Manifest) -> Result<(), TrainError> {
    let directory = run.join(name);
    let mut files = file_digests(&directory).await?;
    let listed = listed_digests(&directory)
        .map_err(|damage| TrainError::File { path: directory.clone(), message: damage.to_string() })?;
    files.extend(listed.unwrap_or_default());
    Ok(archive.upload(name, &directory, &Manifest { files, ..manifest }).await?)
}

/// Records the steps of a run whose record is gone as far as its newest checkpoint there. Rollouts and the account of
/// their tokens are gone with the record.
pub(super) async fn bring_back(archive: &RunArchive, record: &dyn Record, run_id: &str) -> Result<(), TrainError> {
    let mut checkpoints = BTreeMap::new();
    let mut steps = Vec::new();
    for name in archive.names(CHECKPOINTS).await? {
        let Some(manifest) = archive.manifest(&name).await? else { continue };
        checkpoints.insert(manifest.weights_version, CheckpointRecord { directory: name, state: manifest.state });
        // The newest has them all.
        steps = manifest.steps;
    }
    // A process that was killed here has left some of them.
    record.rewind_run(run_id, 0).await?;
    for (number, metrics) in (1..).zip(steps) {
        let checkpoint = checkpoints.remove(&number);
        let step = StepRecord {
            run_id: run_id.to_owned(),
            step: number,
            metrics: Value::Object(metrics),
            weights_version: number,
            uses: Vec::new(),
            teacher_logprobs: Vec::new(),
            checkpoint,
        };
        record.record_step(step).await?;
    }
    Ok(())
}

/// Removes there what was removed in the run's directory.
pub(super) async fn remove(archive: &RunArchive, name: &str) {
    if let Err(error) = archive.remove(name).await {
        tracing::warn!(name, %error, "an old checkpoint is not removed");
    }
}

/// Removes the weights there that were behind the model, but for these versions.
pub(super) async fn remove_behind(archive: &RunArchive, versions: &[u64]) {
    let names = archive.names(gate::DIRECTORY).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "old weights are not removed");
        Vec::new()
    });
    let kept: Vec<String> = versions.iter().map(|version| gate::name(*version)).collect();
    for name in names.into_iter().filter(|name| !kept.contains(name)) {
        remove(archive, &name).await;
    }
}

/// The checkpoints that are whole there, by their names; none where that cannot be found out.
pub(super) async fn known(archive: &RunArchive) -> Vec<String> {
    archive.names(CHECKPOINTS).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "uploaded checkpoints cannot be listed");
        Vec::new()
    })
}
