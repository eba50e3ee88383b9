//! A teacher that becomes what the policy is every so many updates, and stays as it is in between.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fulgurite_backends::{Learner, NewWeights, Sampler, WeightsSource};
use fulgurite_types::WeightsVersion;

use crate::TrainError;
use crate::directories::{copy_directory, remove_directory};

/// Name of its weights' directory in a checkpoint that was made between two refreshes.
const IN_CHECKPOINT: &str = "teacher";

/// What tells the logprobs of weights that the policy had.
#[derive(Clone)]
pub struct FollowingTeacher {
    /// Its own, which nobody else samples from.
    pub sampler: Arc<dyn Sampler>,
    /// Where its weights are kept as long as they are its.
    pub directory: PathBuf,
    /// What a directory of the learner's weights is for the sampler.
    pub saved_as: fn(PathBuf) -> WeightsSource,
    /// The update before which it was refreshed last, by this process.
    pub refreshed: Option<u64>,
}

impl FollowingTeacher {
    /// Becomes what the learner is before the update that follows `step` others, if it is to.
    pub(crate) async fn follow(&mut self, step: u64, every: u64, learner: &dyn Learner) -> Result<(), TrainError> {
        if !step.is_multiple_of(every) || self.refreshed == Some(step) {
            return Ok(());
        }
        remove_directory(&self.directory)?;
        learner.save_weights(&self.directory).await?;
        self.load(step).await
    }

    /// Puts its weights beside a checkpoint after `step` updates, unless it is refreshed before it is asked again.
    pub(crate) async fn save(&self, step: u64, every: u64, checkpoint: &Path) -> Result<(), TrainError> {
        if step.is_multiple_of(every) {
            return Ok(());
        }
        copy_directory(&self.directory, &checkpoint.join(IN_CHECKPOINT)).await
    }

    /// Takes back what was put beside a checkpoint.
    pub(crate) async fn restore(&mut self, step: u64, every: u64, checkpoint: &Path) -> Result<(), TrainError> {
        if step.is_multiple_of(every) {
            return Ok(());
        }
        let saved = checkpoint.join(IN_CHECKPOINT);
        if !saved.is_dir() {
            let message = format!(
                "was made between two refreshes of the teacher, and holds no weights of it: \
                 [trainer] distillation.refresh_every is {every}, and was not when the run began"
            );
            return Err(TrainError::Checkpoint { directory: checkpoint.display().to_string(), message });
        }
        copy_directory(&saved, &self.directory).await?;
        self.load(step - step % every).await
    }

    async fn load(&mut self, step: u64) -> Result<(), TrainError> {
        let source = (self.saved_as)(self.directory.clone());
        self.sampler.load_weights(&NewWeights { version: WeightsVersion(step), source }).await?;
        self.refreshed = Some(step);
        Ok(())
    }
}
