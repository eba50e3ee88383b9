//! The checkpoint that a run would go on from, and how far weights are from it.

use fulgurite_types::WeightsId;

use super::checkpoint_rules::Checkpointing;
use super::checkpoints::{Checkpoints, MissingFiles};
use crate::options::CommonOptions;
use crate::weights::{RunWeights, WeightsOrigin};
use crate::{Record, Reporter, RunIdentity, TrainError, TrainEvent};

/// The newest checkpoint that a run can go on from, or its start. It is the one that a resumed run takes: damaged and
/// missing ones are passed over.
#[derive(Clone, Copy, Debug)]
pub struct ResumePoint {
    /// Updates made.
    pub step: u64,
    origin: Option<WeightsOrigin>,
}

impl ResumePoint {
    /// Looks for it. No learner loads it, and nothing of it is reported.
    ///
    /// # Errors
    /// Those of a resumed run: [`TrainError::NoCheckpointLeft`], and [`TrainError::Checkpoint`] of another seed.
    pub async fn find(
        record: &dyn Record,
        identity: &RunIdentity,
        options: &CommonOptions,
        missing: MissingFiles,
    ) -> Result<Self, TrainError> {
        let checkpoints = Checkpoints {
            record,
            learner: None,
            run_id: &identity.run_id,
            seed: identity.seed,
            directory: &identity.directory,
            kept: Checkpointing::of(options).kept.newest,
            archive: identity.archive.as_ref(),
            missing,
        };
        let usable = checkpoints.newest_usable(&mut Unreported).await?;
        Ok(usable.map_or(Self { step: 0, origin: None }, |usable| Self { step: usable.step, origin: usable.weights }))
    }

    /// How many updates lie between it and the weights of a version; without one, the weights `start` that the run started
    /// from. `None` if they are not the run's. It only looks: nothing gets a name.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub async fn updates_to(
        &self,
        record: &dyn Record,
        model: &str,
        identity: &RunIdentity,
        start: WeightsId,
        version: Option<u64>,
    ) -> Result<Option<u64>, TrainError> {
        let weights = RunWeights::new(model, &identity.run_id, &identity.instance, start);
        weights.look(record, self.step, self.origin).await?;
        let version = version.unwrap_or_else(|| weights.version_after(0));
        Ok(weights.distances().of_version(version))
    }
}

/// Whoever resumes the run reports it.
struct Unreported;

impl Reporter for Unreported {
    fn report(&mut self, _event: TrainEvent) {}
}
