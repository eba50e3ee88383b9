//! How far weights are from the checkpoint that a run goes on from.

use fulgurite_types::WeightsId;

use super::checkpoints::CheckpointState;
use crate::weights::RunWeights;
use crate::{Record, TrainError};

/// How many updates lie between the last checkpoint of a run, known by its id and its instance, and the weights of a version;
/// without one, the weights `start` that the run started from. `None` if they are not the run's. It only looks: nothing gets a name.
pub async fn updates_from_checkpoint(
    record: &dyn Record,
    model: &str,
    (run_id, instance): (&str, &str),
    start: WeightsId,
    version: Option<u64>,
) -> Result<Option<u64>, TrainError> {
    let weights = RunWeights::new(model, run_id, instance, start);
    let (mut step, mut origin) = (0, None);
    if let Some(checkpoint) = record.latest_checkpoint(run_id).await? {
        let state: CheckpointState = serde_json::from_value(checkpoint.state).map_err(|error| {
            TrainError::Checkpoint { directory: checkpoint.directory.clone(), message: error.to_string() }
        })?;
        (step, origin) = (state.step, state.weights);
    }
    weights.look(record, step, origin).await?;
    let version = version.unwrap_or_else(|| weights.version_after(0));
    Ok(weights.distances().of_version(version))
}
