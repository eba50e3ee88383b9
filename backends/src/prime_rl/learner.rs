use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_types::{Datum, WeightsVersion};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::directory::{TrainerDirectory, WrittenBatch, copy_files, wrong};
use super::micro_batch::{MicroBatch, rank_files};
use super::options::PrimeRlOptions;
use crate::{AdamParameters, BackendError, ForwardBackward, Learner, LossFunction, OptimizerStep};

/// How often the trainer's directory is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Says in a checkpoint which of the trainer's steps it is.
const CHECKPOINT: &str = "prime_rl_checkpoint.json";

/// prime-rl's trainer. An update is a file of sequences for each of its ranks, and comes back as weights.
///
/// Loss, optimizer and learning rate are those of the trainer's own configuration, and so are the checkpoints of its optimizer. It
/// reports no logprobs: the lists of a pass are empty. Logprobs without an update, and other losses than a policy's, are refused.
#[derive(Debug)]
pub struct PrimeRlLearner {
    directory: TrainerDirectory,
    options: PrimeRlOptions,
    timeout: Duration,
    temperature: f32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The trainer's last step whose weights were taken.
    step: u64,
    /// What the next update learns from.
    batches: Vec<MicroBatch>,
    /// The run's own copy of the weights after that step, if it goes on from one.
    copy: Option<WeightsCopy>,
}

/// Files of weights in a checkpoint.
#[derive(Clone, Debug)]
struct WeightsCopy {
    directory: PathBuf,
    names: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Checkpoint {
    step: u64,
    /// The files of weights beside it. Checkpoints of 0.1.0 do not list them.
    #[serde(default)]
    weights: Vec<String>,
}

impl PrimeRlLearner {
    /// A trainer that begins with step 0. What it learns from was sampled at this temperature.
    ///
    /// # Errors
    /// If the options cannot be, or the trainer's directory is not there.
    pub fn open(options: PrimeRlOptions, temperature: f32) -> Result<Self, BackendError> {
        let configuration = |message| BackendError::Configuration { message };
        options.check().map_err(configuration)?;
        let directory = TrainerDirectory::new(&options);
        directory.check()?;
        let timeout = options.timeout().unwrap_or_default();
        Ok(Self { directory, options, timeout, temperature, state: Mutex::default() })
    }

    /// Refuses a directory that has steps of another run: a run that begins would take its weights.
    ///
    /// # Errors
    /// If there is one, or the directory cannot be read.
    pub fn require_unused(options: &PrimeRlOptions) -> Result<(), BackendError> {
        TrainerDirectory::new(options).require_unused()
    }

    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Works at the trainer's files, which may be large and far.
    async fn on_files<T: Send + 'static>(
        &self,
        work: impl FnOnce(&TrainerDirectory) -> Result<T, BackendError> + Send + 'static,
    ) -> Result<T, BackendError> {
        let directory = self.directory.clone();
        let worked = tokio::task::spawn_blocking(move || work(&directory)).await;
        worked.map_err(|_| BackendError::Internal { message: "work at prime-rl's files has panicked".to_owned() })?
    }

    async fn write(&self, step: u64, files: &Arc<[Vec<u8>]>) -> Result<(), BackendError> {
        let files = Arc::clone(files);
        self.on_files(move |directory| directory.write_batch(step, &files)).await
    }

    /// Waits until the weights after a step are whole. Files of its batch that go, because the trainer has begun anew from an
    /// earlier step and clears what comes after it, are written again.
    async fn wait_for(&self, step: u64, files: &Arc<[Vec<u8>]>) -> Result<(), BackendError> {
        let started = Instant::now();
        while !self.directory.has_weights(step)? {
            if started.elapsed() >= self.timeout {
                let message = format!(
                    "prime-rl's trainer has written no weights to {} within {} s ([prime_rl] timeout_seconds): is it alive?",
                    self.directory.weights(step).display(),
                    self.timeout.as_secs_f64()
                );
                return Err(BackendError::Unavailable { message });
            }
            if !self.directory.has_files(step, files.len()) {
                self.write(step, files).await?;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

impl PrimeRlLearner {
    /// Copies the weights after the last step to a new directory, and returns their files' names. A trainer that has removed them
    /// is not waited for where the checkpoint that the run goes on from holds them.
    async fn copy_weights(&self, directory: &Path) -> Result<Vec<String>, BackendError> {
        let (step, copy) = self.with_state(|state| (state.step, state.copy.clone()));
        let to = directory.to_owned();
        match copy {
            Some(WeightsCopy { directory: from, names }) if !self.directory.has_weights(step)? => {
                let work = move |_: &TrainerDirectory| copy_files(&from, &names, &to).map(|()| names);
                self.on_files(work).await
            }
            _ => {
                self.wait_for(step, &Arc::default()).await?;
                self.on_files(move |directory| directory.copy_weights(step, &to)).await
            }
        }
    }
}

fn refused(what: &str) -> BackendError {
    BackendError::Configuration { message: format!("learner = \"prime-rl\" {what}") }
}

#[async_trait]
impl Learner for PrimeRlLearner {
    async fn forward(&self, _: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        Err(refused("reports no logprobs: leave out what needs them"))
    }

    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        if loss == LossFunction::CrossEntropy {
            return Err(refused("learns from sampled tokens with advantages alone"));
        }
        let batches = data.iter().map(MicroBatch::of).collect::<Result<Vec<_>, _>>()?;
        self.with_state(|state| state.batches.extend(batches));
        Ok(ForwardBackward { loss_sum: f64::NAN, logprobs: Vec::new(), entropies: None })
    }

    /// The trainer is told the temperature that it was opened with, token by token.
    async fn set_sampling_temperature(&self, temperature: f32) -> Result<(), BackendError> {
        match temperature == self.temperature {
            true => Ok(()),
            false => Err(refused(&format!("is told that tokens were sampled at temperature {}", self.temperature))),
        }
    }

    /// Its parameters are not the trainer's. The norm is NaN: the trainer does not report it.
    async fn optimizer_step(&self, _: AdamParameters) -> Result<OptimizerStep, BackendError> {
        let (step, batches) = self.with_state(|state| (state.step + 1, std::mem::take(&mut state.batches)));
        let files: Arc<[Vec<u8>]> = rank_files(&batches, self.options.ranks, self.temperature).into();
        let expected = Arc::clone(&files);
        // An update that was made of the same batch before this process was ended is this one.
        let written = self.on_files(move |directory| directory.batch_of(step, &expected)).await?;
        if written == WrittenBatch::Other
            || (written == WrittenBatch::Unfinished && self.directory.has_weights(step)?)
        {
            let message = format!(
                "the trainer has step {step} of another batch: start it again from its checkpoint of step {}, and remove what it \
                 has of later steps in rollouts and broadcasts",
                step - 1
            );
            return Err(wrong(&self.directory.weights(step), &message));
        }
        if written == WrittenBatch::Unfinished {
            self.write(step, &files).await?;
        }
        self.wait_for(step, &files).await?;
        self.with_state(|state| (state.step, state.copy) = (step, None));
        Ok(OptimizerStep { gradient_norm: f64::NAN, ..OptimizerStep::default() })
    }

    /// The weights, and which step they are after; the trainer keeps its optimizer itself.
    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        let step = self.with_state(|state| state.step);
        let weights = self.copy_weights(directory).await?;
        let path = directory.join(CHECKPOINT);
        let json = serde_json::to_string(&Checkpoint { step, weights });
        let json = json.map_err(|error| BackendError::Internal { message: error.to_string() })?;
        std::fs::write(&path, json).map_err(|error| wrong(&path, &error))?;
        std::fs::File::open(&path).and_then(|file| file.sync_all()).map_err(|error| wrong(&path, &error))
    }

    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        let path = directory.join(CHECKPOINT);
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(&path, &error))?;
        let Checkpoint { step, weights } = serde_json::from_str(&text).map_err(|error| wrong(&path, &error))?;
        if let Some(newest) = self.directory.newest_weights()?.filter(|newest| *newest > step + 1) {
            let message = format!(
                "is behind prime-rl's trainer, which is at step {newest}: start the trainer again from its checkpoint of step \
                 {step}"
            );
            return Err(wrong(directory, &message));
        }
        let copy = WeightsCopy { directory: directory.to_owned(), names: weights };
        let copy = Some(copy).filter(|copy| !copy.names.is_empty());
        self.with_state(|state| *state = State { step, batches: Vec::new(), copy });
        Ok(())
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        self.copy_weights(directory).await.map(drop)
    }

    async fn publish_weights(&self, _: WeightsVersion) -> Result<(), BackendError> {
        Err(BackendError::Internal { message: "prime-rl's weights are published from a directory".to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{Dtype, TensorView};

    use super::*;

    /// Weights of one tensor that the trainer offers after a step.
    fn broadcast(root: &Path, step: u64, value: u8) -> PathBuf {
        let numbers = [value; 16];
        let view = TensorView::new(Dtype::F32, vec![4], &numbers).unwrap();
        let directory = root.join(format!("broadcasts/step_{step}"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("model.safetensors"), safetensors::serialize([("w", view)], None).unwrap())
            .unwrap();
        std::fs::write(directory.join("config.json"), "{}").unwrap();
        std::fs::write(directory.join("STABLE"), "").unwrap();
        directory
    }

    fn learner(root: &Path) -> PrimeRlLearner {
        // The weights that are there need no wait, and those that are not are given up at once.
        let options =
            PrimeRlOptions { directory: root.to_owned(), timeout_seconds: 0.001, ..PrimeRlOptions::default() };
        PrimeRlLearner::open(options, 1.0).unwrap()
    }

    /// The trainer keeps a few of its broadcasts, and a run may go on long after.
    #[tokio::test]
    async fn a_run_goes_on_from_its_own_copy_of_weights_that_the_trainer_has_removed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let offered = broadcast(root, 0, 7);
        let weights = std::fs::read(offered.join("model.safetensors")).unwrap();
        let checkpoint = root.join("checkpoint");
        learner(root).save_checkpoint(&checkpoint).await.unwrap();
        std::fs::remove_dir_all(offered).unwrap();
        let missing = learner(root).save_weights(&root.join("new")).await.unwrap_err().to_string();
        assert!(missing.contains("has written no weights to "), "{missing}");

        let resumed = learner(root);
        resumed.load_checkpoint(&checkpoint).await.unwrap();
        let published = root.join("published");
        resumed.save_weights(&published).await.unwrap();
        assert!(std::fs::read(published.join("model.safetensors")).unwrap() == weights);
        assert!(!published.join(CHECKPOINT).exists());
        // And what is saved of that is whole again.
        let again = root.join("again");
        resumed.save_checkpoint(&again).await.unwrap();
        learner(root).load_checkpoint(&again).await.unwrap();
        // Weights that the trainer still has come first.
        broadcast(root, 0, 9);
        resumed.save_weights(&root.join("newest")).await.unwrap();
        assert!(std::fs::read(root.join("newest/model.safetensors")).unwrap() != weights);
    }

    #[tokio::test]
    async fn damaged_weights_are_refused_with_their_file_and_leave_no_copy() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let file = broadcast(root, 0, 7).join("model.safetensors");
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 4]).unwrap();
        let copy = root.join("published");
        let refused = learner(root).save_weights(&copy).await.unwrap_err().to_string();
        let words = format!("{}: has {} bytes, and by its header {}", file.display(), bytes.len() - 4, bytes.len());
        assert!(refused.starts_with(&words) && refused.contains("remove "), "{refused}");
        assert!(!copy.exists());
    }
}
