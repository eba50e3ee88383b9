//! A run's checkpoints as it goes on: saved, uploaded, removed; and the weights that it puts behind the model, or not.

use fulgurite_types::CheckpointRecord;
use fulgurite_types::time::now;
use serde_json::{Map, Value, json};

use super::checkpoint_rules::KnownCheckpoint;
use super::checkpoints::{CheckpointState, Checkpoints, MissingFiles, checkpoint_name};
use super::files::digests::file_digests;
use super::gate::{self, BehindModel, GateRule, Judgement};
use super::training_run::{Progress, TrainingRun, set};
use super::uploads::{self, UPLOADED, Upload};
use crate::archive::Manifest;
use crate::directories::remove_directory;
use crate::evaluation::Evaluation;
use crate::publishing::{Publisher, WeightsAtStart};
use crate::{Reporter, TrainError, TrainEvent};

impl<Data> TrainingRun<Data> {
    /// Gives a name to the weights that the learner has after `step` updates, the last of which it was given since.
    pub(super) async fn name_update(&self, step: u64) -> Result<(), TrainError> {
        let Some(Publisher { weights, learner, .. }) = &self.publisher else { return Ok(()) };
        weights.advance(self.record.as_ref(), step, learner.take_digest()).await
    }

    /// The version of the weights after `step` updates.
    pub(super) fn version_after(&self, step: u64) -> u64 {
        self.publisher.as_ref().map_or(step, |publisher| publisher.weights.version_after(step))
    }

    /// Puts the learner's weights behind the model, which are those after `step` updates, and tells agents of them; unless newer
    /// weights of the run are there, from before it went back to its checkpoint.
    pub(super) async fn publish(&self, step: u64) -> Result<(), TrainError> {
        let Some(publisher) = self.publisher.as_ref().filter(|publisher| !publisher.holds(step)) else {
            return Ok(());
        };
        publisher.publish(self.record.as_ref(), &self.identity.run_id, self.version_after(step)).await
    }

    /// What is behind the model once the run begins, or goes on from its checkpoint after `step` updates.
    pub(super) async fn publish_at_start(&self, behind: Option<&BehindModel>, step: u64) -> Result<(), TrainError> {
        let Some(publisher) = &self.publisher else { return Ok(()) };
        match (publisher.at_start, behind) {
            (WeightsAtStart::Keep | WeightsAtStart::Hold(_), _) => {
                let (record, version) = (self.record.as_ref(), self.version_after(step));
                publisher.resource.store(record, &self.identity.run_id, version).await
            }
            (WeightsAtStart::Publish | WeightsAtStart::Replace, Some(behind)) if behind.step != step => {
                self.put_back(behind, step).await
            }
            (WeightsAtStart::Publish | WeightsAtStart::Replace, _) => self.publish(step).await,
        }
    }

    /// Puts weights behind the model that are older than the learner's, which goes on from its checkpoint after `step`
    /// updates.
    async fn put_back(&self, behind: &BehindModel, step: u64) -> Result<(), TrainError> {
        let directory = gate::directory(&self.identity.directory, behind.step);
        if let Some(archive) = self.identity.archive.as_ref().filter(|_| !directory.exists()) {
            archive.download(&gate::name(behind.step), &directory).await?;
        }
        self.learner.load_checkpoint(&directory).await?;
        self.publish(behind.step).await?;
        Ok(self.learner.load_checkpoint(&self.identity.directory.join(checkpoint_name(step))).await?)
    }

    /// Puts the learner's weights behind the model, which have just been scored, unless they are worse than those there.
    pub(super) async fn publish_if_not_worse(
        &self,
        progress: &mut Progress,
        evaluation: &mut Evaluation,
        reporter: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let step = progress.step;
        let costs = std::mem::take(&mut evaluation.costs);
        // What is there already was scored once more, or for the first time.
        let other = progress.behind.as_ref().filter(|behind| behind.step != step);
        let judgement = other.map(|behind| Judgement::of(&costs, &behind.costs));
        if !judgement.is_some_and(|judgement| judgement.is_worse()) {
            let directory = gate::directory(&self.identity.directory, step);
            remove_directory(&directory)?;
            self.learner.save_checkpoint(&directory).await?;
            if let Some(archive) = &self.identity.archive {
                let name = gate::name(step);
                let put = uploads::put(archive, &self.identity.directory, &name, Manifest::default()).await;
                if let Err(error) = put {
                    let message = error.to_string();
                    reporter.report(TrainEvent::CheckpointNotUploaded { directory: name, message });
                }
            }
            if judgement.is_some() {
                self.publish(step).await?;
            }
            progress.behind = Some(BehindModel { step, costs });
        }
        let version = self.version_after(progress.behind.as_ref().map_or(step, |behind| behind.step));
        gate::write_metrics(&mut evaluation.metrics, version, judgement.as_ref());
        if let Some(judgement) = judgement {
            let (is_published, difference) = (!judgement.is_worse(), judgement.difference);
            reporter.report(TrainEvent::WeightsJudged { step, version, is_published, difference });
        }
        Ok(())
    }

    /// Saves the weights; the record that makes it a checkpoint is written with the step's.
    pub(super) async fn save_checkpoint(&self, progress: &Progress) -> Result<CheckpointRecord, TrainError> {
        let step = progress.step;
        let name = checkpoint_name(step);
        let directory = self.identity.directory.join(&name);
        // Left by a process that died between saving and recording: it counts for nothing.
        remove_directory(&directory)?;
        self.learner.save_checkpoint(&directory).await?;
        self.objective.save(step, &directory).await?;
        let files = file_digests(&directory).await?;
        let state = {
            let weights = self.publisher.as_ref().and_then(|publisher| publisher.weights.origin());
            CheckpointState {
                behind: progress.behind.clone(),
                weights,
                ..CheckpointState::new(self.identity.seed, step, &progress.position, files)
            }
        };
        Ok(CheckpointRecord { directory: name, state: json!(state) })
    }

    /// Puts a checkpoint where it is uploaded to, if anywhere; the metrics say whether it got there. They are those of a
    /// step that `is_update`, or of the record after the last one, which is written anew by whoever goes on from there.
    pub(super) async fn upload(
        &self,
        progress: &Progress,
        record: &CheckpointRecord,
        metrics: &mut Map<String, Value>,
        is_update: bool,
        reporter: &mut dyn Reporter,
    ) -> Result<(), TrainError> {
        let Some(archive) = &self.identity.archive else { return Ok(()) };
        let steps = self.record.steps(&self.identity.run_id).await?;
        set(metrics, UPLOADED, 1);
        let upload =
            Upload { record, weights_version: progress.step, steps: &steps, metrics: is_update.then_some(&*metrics) };
        if let Err(error) = uploads::upload(archive, &self.identity.directory, upload).await {
            set(metrics, UPLOADED, 0);
            let (directory, message) = (record.directory.clone(), error.to_string());
            reporter.report(TrainEvent::CheckpointNotUploaded { directory, message });
        }
        Ok(())
    }

    pub(super) fn checkpoints(&self) -> Checkpoints<'_> {
        Checkpoints {
            record: self.record.as_ref(),
            learner: Some(self.learner.as_ref()),
            run_id: &self.identity.run_id,
            seed: self.identity.seed,
            directory: &self.identity.directory,
            kept: self.checkpointing.kept.newest,
            archive: self.identity.archive.as_ref(),
            missing: MissingFiles::Download,
        }
    }

    /// Removes those that are kept no longer.
    pub(super) async fn remove_old_checkpoints(&self, progress: &Progress) -> Result<(), TrainError> {
        let checkpoints = self.record.checkpoints(&self.identity.run_id).await?;
        let archive = self.identity.archive.as_ref();
        let uploaded = match archive {
            Some(archive) => uploads::known(archive).await,
            None => Vec::new(),
        };
        let is_there = |name: &String| self.identity.directory.join(name).exists() || uploaded.contains(name);
        let known: Vec<KnownCheckpoint> = checkpoints
            .iter()
            .map(|checkpoint| KnownCheckpoint {
                age: now() - checkpoint.time,
                score: progress.evaluations.scores.get(&checkpoint.weights_version).map(|held_out| held_out.score),
                is_there: is_there(&checkpoint.directory),
            })
            .collect();
        let removed = self.checkpointing.kept.removed(&known);
        for place in &removed {
            let name = &checkpoints[*place].directory;
            remove_directory(&self.identity.directory.join(name))?;
            if let Some(archive) = archive.filter(|_| uploaded.contains(name)) {
                uploads::remove(archive, name).await;
            }
        }
        if self.publish_gate.is_none_or(|gate| gate.rule != GateRule::NotWorse) {
            return Ok(());
        }
        // A resumed run puts back what was behind the model when its checkpoint was made.
        let kept =
            checkpoints.iter().enumerate().filter(|(place, _)| known[*place].is_there && !removed.contains(place));
        let named = kept.filter_map(|(_, checkpoint)| checkpoint.state["behind"]["version"].as_u64());
        let versions: Vec<u64> = named.chain(progress.behind.as_ref().map(|behind| behind.step)).collect();
        if let Some(archive) = archive {
            uploads::remove_behind(archive, &versions).await;
        }
        gate::remove_others(&self.identity.directory, &versions)
    }
}
