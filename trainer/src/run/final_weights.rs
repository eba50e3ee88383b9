//! Which weights are a run's at its end: those after the last update, or those with the best held-out score.

use std::path::PathBuf;

use fulgurite_types::Checkpoint;

use super::training_run::{Evaluations, TrainingRun};
use crate::options::FinalWeights;
use crate::scores::HeldOutScore;
use crate::{BestWeights, TrainError};

/// A checkpoint with its score.
struct Scored {
    /// Updates before it.
    step: u64,
    /// Where it is, as seen from the run's directory.
    directory: String,
    score: HeldOutScore,
}

/// The one with the best score of those that are there; of equal ones the first.
fn best(checkpoints: Vec<Checkpoint>, evaluations: &Evaluations) -> Option<Scored> {
    let scored = checkpoints.into_iter().filter_map(|checkpoint| {
        let step = checkpoint.weights_version;
        let score = *evaluations.scores.get(&step)?;
        Some(Scored { step, directory: checkpoint.directory, score })
    });
    scored.max_by(|one, other| one.score.score.total_cmp(&other.score.score).then(other.step.cmp(&one.step)))
}

impl<Data> TrainingRun<Data> {
    /// Whether every evaluation has a checkpoint.
    pub(super) fn keeps_scored(&self) -> bool {
        self.final_weights == FinalWeights::Best || self.patience.is_some()
    }

    /// The checkpoint with the best score, of those that are in the run's directory or where it uploads them.
    async fn best_checkpoint(&self, evaluations: &Evaluations) -> Result<Option<Scored>, TrainError> {
        let mut checkpoints = self.record.checkpoints(&self.identity.run_id).await?;
        let is_elsewhere = self.identity.archive.is_some();
        checkpoints.retain(|checkpoint| is_elsewhere || self.identity.directory.join(&checkpoint.directory).exists());
        Ok(best(checkpoints, evaluations))
    }

    /// Goes back to the best weights, where those are the run's, and puts them behind the model. `step` updates were made; gives
    /// how many those weights are after.
    pub(super) async fn settle(&self, step: u64, evaluations: &Evaluations) -> Result<u64, TrainError> {
        if self.final_weights == FinalWeights::Last {
            return Ok(step);
        }
        let Some(best) = self.best_checkpoint(evaluations).await? else { return Ok(step) };
        // The last weights may have no checkpoint yet that is recorded.
        let last = evaluations.scores.get(&step);
        if best.step == step || last.is_some_and(|last| last.score > best.score.score) {
            return Ok(step);
        }
        let directory = self.identity.directory.join(&best.directory);
        if let Some(archive) = self.identity.archive.as_ref().filter(|_| !directory.exists()) {
            archive.download(&best.directory, &directory).await?;
        }
        self.learner.load_checkpoint(&directory).await?;
        if let Some(publisher) = &self.publisher {
            let version = self.version_after(best.step);
            publisher.publish(self.record.as_ref(), &self.identity.run_id, version).await?;
        }
        Ok(best.step)
    }

    /// The best weights of a run that looks for them.
    pub(super) async fn best_weights(&self, evaluations: &Evaluations) -> Result<Option<BestWeights>, TrainError> {
        if !self.keeps_scored() {
            return Ok(None);
        }
        let best = self.best_checkpoint(evaluations).await?;
        Ok(best.map(|Scored { step, directory, score }| {
            let start = evaluations.scores.get(&0).filter(|start| start.score > score.score);
            let checkpoint: PathBuf = self.identity.directory.join(directory);
            BestWeights {
                metric: score.metric,
                score: score.measured,
                steps: step,
                checkpoint,
                start: start.map(|start| start.measured),
            }
        }))
    }
}
