//! A run's checkpoints: what their records say, and going on from the newest whose files are those that were saved.

use std::collections::BTreeMap;
use std::path::Path;

use fulgurite_backends::{BackendError, FileDigests, Learner, find_damage, find_listed_damage};
use fulgurite_types::Checkpoint;
use serde::{Deserialize, Serialize};

use super::files::digests::in_background;
use super::gate::BehindModel;
use super::uploads;
use crate::sources::{AdaptedCoefficients, Curriculum, DataPosition, HarvestState, SolveRates};
use crate::weights::WeightsOrigin;
use crate::{Record, Reporter, RunArchive, TrainError, TrainEvent};

/// What is done about the files of a checkpoint that are in an object store alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingFiles {
    /// They are downloaded.
    Download,
    /// They stay there, and count as whole.
    Ignore,
}

/// All that a resumed run needs beside weights and optimizer: every random choice is a pure function of the seed and
/// of the places.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CheckpointState {
    pub seed: u64,
    /// Updates made.
    pub step: u64,
    /// Tasks read so far.
    pub data_cursor: u64,
    /// Rollouts read so far, of a run that harvests.
    #[serde(default)]
    pub harvest: HarvestState,
    /// Changes with the conversations that are counted, of a run that learns from such.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data_fingerprint: String,
    /// Names the reference of a run that learns from comparisons, with what its weights are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// How often tasks were solved, of a run that tries them by that.
    #[serde(default, skip_serializing_if = "SolveRates::is_empty")]
    pub solve_rates: SolveRates,
    /// What is known of the tasks, of a run with a curriculum.
    #[serde(default, skip_serializing_if = "Curriculum::is_empty")]
    pub curriculum: Curriculum,
    /// Conversations read so far, of a run that learns from them beside its tasks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub conversation_cursor: u64,
    /// Coefficients of the objective that follow what was measured, of a run that adapts any.
    #[serde(default, skip_serializing_if = "AdaptedCoefficients::is_empty")]
    pub adapted: AdaptedCoefficients,
    /// What is behind the model, of a run that publishes only what is not worse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<BehindModel>,
    /// Which weights it holds, of a run whose weights are sampled from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightsOrigin>,
    /// What the files were when they were saved, but for those that the directory's own list tells of: of them, what the
    /// list was. Older records tell of all files, or of none; those are taken as they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: FileDigests,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl CheckpointState {
    pub(crate) fn new(seed: u64, step: u64, position: &DataPosition, files: FileDigests) -> Self {
        let DataPosition {
            data_cursor,
            harvest,
            data_fingerprint,
            reference,
            solve_rates,
            curriculum,
            conversation_cursor,
            adapted,
        } = position.clone();
        Self {
            seed,
            step,
            data_cursor,
            harvest,
            data_fingerprint,
            reference,
            solve_rates,
            curriculum,
            conversation_cursor,
            adapted,
            behind: None,
            weights: None,
            files,
        }
    }

    /// Where the data are read on.
    pub(crate) fn position(&self) -> DataPosition {
        DataPosition {
            data_cursor: self.data_cursor,
            harvest: self.harvest.clone(),
            data_fingerprint: self.data_fingerprint.clone(),
            reference: self.reference.clone(),
            solve_rates: self.solve_rates.clone(),
            curriculum: self.curriculum.clone(),
            conversation_cursor: self.conversation_cursor,
            adapted: self.adapted,
        }
    }
}

/// The checkpoints of one run.
pub(crate) struct Checkpoints<'r> {
    pub record: &'r dyn Record,
    /// Whoever goes on from one of them; `None` to look only.
    pub learner: Option<&'r dyn Learner>,
    pub run_id: &'r str,
    pub seed: u64,
    /// What the directories in the records begin at.
    pub directory: &'r Path,
    /// As many of the newest as are kept; older ones have been removed.
    pub kept: usize,
    /// Where they are too, if anywhere.
    pub archive: Option<&'r RunArchive>,
    pub missing: MissingFiles,
}

impl Checkpoints<'_> {
    /// Finds the newest checkpoint whose files are those that were saved, and has the learner load it, if there is one. The
    /// reporter is told of every newer one, and why it was passed over. `None` if the run has no checkpoints yet.
    ///
    /// # Errors
    /// If there are checkpoints, but none to go on from; if one was made with another seed; if the learner does not
    /// take files that are whole.
    pub(super) async fn newest_usable(
        &self,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<CheckpointState>, TrainError> {
        let mut checkpoints = self.record.checkpoints(self.run_id).await?;
        // Where there are directories, the record is not gone: it has only not come to its first checkpoint.
        let disconnected = checkpoints.is_empty() && !self.directory.join(uploads::CHECKPOINTS).exists();
        if let Some(archive) = self.archive.filter(|_| disconnected && self.learner.is_some()) {
            uploads::bring_back(archive, self.record, self.run_id).await?;
            checkpoints = self.record.checkpoints(self.run_id).await?;
        }
        let mut passed_over = Vec::new();
        for (age, checkpoint) in checkpoints.iter().rev().enumerate() {
            let directory = self.directory.join(&checkpoint.directory);
            if age >= self.kept && !directory.exists() {
                continue;
            }
            let state = self.state(checkpoint)?;
            let Some(message) = self.problem(&checkpoint.directory, &directory, &state.files).await? else {
                return Ok(Some(state));
            };
            if self.learner.is_some() {
                tracing::warn!(checkpoint = checkpoint.directory, %message, "a checkpoint is passed over");
            }
            passed_over.push(format!("{}: {message}", checkpoint.directory));
            reporter.report(TrainEvent::CheckpointPassedOver { directory: checkpoint.directory.clone(), message });
        }
        if checkpoints.is_empty() {
            return Ok(None);
        }
        let message = passed_over.join("; ");
        Err(TrainError::NoCheckpointLeft { run_id: self.run_id.to_owned(), message })
    }

    /// Why a checkpoint cannot be gone on from, if it cannot. The learner has loaded it otherwise.
    async fn problem(&self, name: &str, directory: &Path, files: &FileDigests) -> Result<Option<String>, TrainError> {
        if let Some(archive) = self.archive.filter(|_| !directory.exists()) {
            match self.missing {
                MissingFiles::Download => {
                    if let Err(error) = archive.download(name, directory).await {
                        return Ok(Some(error.to_string()));
                    }
                }
                MissingFiles::Ignore => match archive.manifest(name).await {
                    Ok(Some(_)) => return Ok(None),
                    Ok(None) => {}
                    Err(error) => return Ok(Some(error.to_string())),
                },
            }
        }
        self.load(directory, files).await
    }

    /// Has the learner go on from files, if there is one, or tells what is wrong with them.
    async fn load(&self, directory: &Path, files: &FileDigests) -> Result<Option<String>, TrainError> {
        if let Some(message) = damage(directory, files).await? {
            return Ok(Some(message));
        }
        let Some(learner) = self.learner else { return listed_damage(directory).await };
        match learner.load_checkpoint(directory).await {
            Err(BackendError::Damaged(damaged)) => Ok(Some(damaged.damage.to_string())),
            loaded => Ok(loaded.map(|()| None)?),
        }
    }

    fn state(&self, checkpoint: &Checkpoint) -> Result<CheckpointState, TrainError> {
        let wrong = |message: String| TrainError::Checkpoint { directory: checkpoint.directory.clone(), message };
        let state: CheckpointState =
            serde_json::from_value(checkpoint.state.clone()).map_err(|error| wrong(error.to_string()))?;
        match state.seed == self.seed {
            true => Ok(state),
            false => Err(wrong(format!("made with seed {}, not {}", state.seed, self.seed))),
        }
    }
}

/// What is wrong with a checkpoint's files, if something is.
async fn damage(directory: &Path, files: &FileDigests) -> Result<Option<String>, TrainError> {
    if !directory.is_dir() {
        return Ok(Some("its directory is gone".to_owned()));
    }
    let (path, files) = (directory.to_owned(), files.clone());
    in_background(directory, move || Ok(find_damage(&path, &files).map(|damage| damage.to_string()))).await
}

/// What is wrong with the files that the directory's own list tells of, which a learner compares as it loads them.
async fn listed_damage(directory: &Path) -> Result<Option<String>, TrainError> {
    let path = directory.to_owned();
    in_background(directory, move || Ok(find_listed_damage(&path).map(|damage| damage.to_string()))).await
}

/// Where a checkpoint is, as seen from the run's directory, so that a run can be moved.
pub(super) fn checkpoint_name(step: u64) -> String {
    format!("checkpoints/{step:06}")
}

#[cfg(test)]
mod tests {
    use fulgurite_backends::{DIGEST_LIST, file_digest};

    use super::super::files::digests::file_digests;
    use super::*;

    #[tokio::test]
    async fn a_changed_or_missing_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        std::fs::create_dir(path.join("inner")).unwrap();
        std::fs::write(path.join("weights"), [0, 1, 2]).unwrap();
        std::fs::write(path.join("inner/state"), "abc").unwrap();
        let files = file_digests(path).await.unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["inner/state", "weights"]);
        assert_eq!(files["inner/state"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(damage(path, &files).await.unwrap(), None);
        std::fs::write(path.join("weights"), [0, 1, 3]).unwrap();
        let message = damage(path, &files).await.unwrap().unwrap();
        assert!(message.starts_with("weights is not what was saved: its SHA-256 is "), "{message}");
        assert_eq!(damage(path, &FileDigests::new()).await.unwrap(), None, "nobody said what the files were");
        std::fs::remove_file(path.join("inner/state")).unwrap();
        let message = damage(path, &files).await.unwrap().unwrap();
        assert!(message.starts_with("inner/state cannot be read: "), "{message}");
        let missing = damage(&path.join("gone"), &files).await.unwrap();
        assert_eq!(missing.as_deref(), Some("its directory is gone"));
    }

    #[tokio::test]
    async fn a_record_has_the_digest_of_the_list_in_place_of_what_it_tells_of() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        for name in ["weights", "added"] {
            std::fs::write(path.join(name), "abc").unwrap();
        }
        let digest = file_digest(&path.join("weights")).unwrap();
        std::fs::write(path.join(DIGEST_LIST), format!("{digest}  weights\n")).unwrap();
        let files = file_digests(path).await.unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["added", DIGEST_LIST]);
        std::fs::remove_file(path.join(DIGEST_LIST)).unwrap();
        let message = damage(path, &files).await.unwrap().unwrap();
        assert!(message.starts_with("fulgurite.sha256 cannot be read: "), "{message}");
    }
}
