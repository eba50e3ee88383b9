use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use fulgurite_types::{Datum, WeightsVersion};

use crate::{
    AdamParameters, BackendError, Comparisons, ForwardBackward, GuardedStep, Learner, LossFunction, NewWeights,
    OptimizerStep, WeightsReceiver, WeightsSource,
};

/// A learner whose weights are sampled from elsewhere: it publishes them by writing a directory, which the sampler's
/// hosts read. They must see that directory under the same path.
pub struct PublishingLearner {
    learner: Arc<dyn Learner>,
    receiver: Box<dyn WeightsReceiver>,
    directory: PathBuf,
    source: fn(PathBuf) -> WeightsSource,
    /// What was published last.
    newest: Mutex<Option<PathBuf>>,
}

impl PublishingLearner {
    /// Gives what `learner` learns to `receiver`, through directories in `directory`. `source` says what the learner writes:
    /// [`WeightsSource::Model`] or [`WeightsSource::Adapter`].
    pub fn new(
        learner: Arc<dyn Learner>,
        receiver: impl WeightsReceiver,
        directory: PathBuf,
        source: fn(PathBuf) -> WeightsSource,
    ) -> Self {
        Self { learner, receiver: Box::new(receiver), directory, source, newest: Mutex::default() }
    }

    /// Writes the weights where a version's are read. Another process may have died here, or the same version may be there
    /// already, which hosts read.
    async fn write(&self, directory: &Path) -> Result<(), BackendError> {
        let wrong = |error: std::io::Error| BackendError::Files {
            path: directory.to_owned(),
            message: format!("cannot be replaced: {error}"),
        };
        let (fresh, old) = (directory.with_extension("new"), directory.with_extension("old"));
        for left in [&fresh, &old] {
            remove(left).await.map_err(wrong)?;
        }
        self.learner.save_weights(&fresh).await?;
        match tokio::fs::rename(directory, &old).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(wrong(error)),
            _ => {}
        }
        tokio::fs::rename(&fresh, directory).await.map_err(wrong)?;
        remove(&old).await.map_err(wrong)
    }

    /// Removes what was published before the last two: a host may still read the one before the newest, and one that comes
    /// back is given the newest.
    async fn remove_older(&self, newest: &Path) -> Result<(), BackendError> {
        let wrong = |path: &Path, error: std::io::Error| BackendError::Files {
            path: path.to_owned(),
            message: format!("cannot be cleared of older weights: {error}"),
        };
        let before = self.newest.lock().unwrap_or_else(PoisonError::into_inner).replace(newest.to_owned());
        let mut others = Vec::new();
        let mut entries = tokio::fs::read_dir(&self.directory).await.map_err(|error| wrong(&self.directory, error))?;
        while let Some(entry) = entries.next_entry().await.map_err(|error| wrong(&self.directory, error))? {
            others.extend(Some(entry.path()).filter(|path| path != newest));
        }
        others.sort();
        // What an earlier process published last is the greatest.
        let is_whole = |path: &&PathBuf| path.extension().is_none();
        let kept = before.filter(|before| before != newest).or_else(|| others.iter().rfind(is_whole).cloned());
        for other in others.iter().filter(|other| Some(*other) != kept.as_ref()) {
            remove(other).await.map_err(|error| wrong(other, error))?;
        }
        Ok(())
    }
}

async fn remove(directory: &Path) -> std::io::Result<()> {
    match tokio::fs::remove_dir_all(directory).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[async_trait]
impl Learner for PublishingLearner {
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.forward(data).await
    }

    async fn entropies(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.entropies(data).await
    }

    async fn keep_reference(&self) -> Result<(), BackendError> {
        self.learner.keep_reference().await
    }

    async fn forward_reference(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.learner.forward_reference(data).await
    }

    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.learner.forward_backward(data, loss).await
    }

    async fn forward_backward_with_entropy(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
        entropy_weight: f32,
    ) -> Result<ForwardBackward, BackendError> {
        self.learner.forward_backward_with_entropy(data, loss, entropy_weight).await
    }

    async fn forward_backward_comparisons(
        &self,
        data: Arc<[Datum]>,
        comparisons: Arc<Comparisons>,
    ) -> Result<ForwardBackward, BackendError> {
        self.learner.forward_backward_comparisons(data, comparisons).await
    }

    async fn set_sampling_temperature(&self, temperature: f32) -> Result<(), BackendError> {
        self.learner.set_sampling_temperature(temperature).await
    }

    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError> {
        self.learner.optimizer_step(parameters).await
    }

    async fn optimizer_step_within(&self, parameters: AdamParameters, most: f64) -> Result<GuardedStep, BackendError> {
        self.learner.optimizer_step_within(parameters, most).await
    }

    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.save_checkpoint(directory).await
    }

    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.load_checkpoint(directory).await
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        self.learner.save_weights(directory).await
    }

    async fn publish_weights(&self, version: WeightsVersion) -> Result<(), BackendError> {
        let directory = self.directory.join(format!("{:06}", version.0));
        self.write(&directory).await?;
        self.receiver.load_weights(&NewWeights { version, source: (self.source)(directory.clone()) }).await?;
        self.remove_older(&directory).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file for weights.
    struct Writer;

    #[async_trait]
    impl Learner for Writer {
        async fn forward(&self, _: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
            Ok(Vec::new())
        }

        async fn forward_backward(&self, _: Arc<[Datum]>, _: LossFunction) -> Result<ForwardBackward, BackendError> {
            Ok(ForwardBackward::default())
        }

        async fn optimizer_step(&self, _: AdamParameters) -> Result<OptimizerStep, BackendError> {
            Ok(OptimizerStep::default())
        }

        async fn save_checkpoint(&self, _: &Path) -> Result<(), BackendError> {
            Ok(())
        }

        async fn load_checkpoint(&self, _: &Path) -> Result<(), BackendError> {
            Ok(())
        }

        async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("weights"), "whole").unwrap();
            Ok(())
        }

        async fn publish_weights(&self, _: WeightsVersion) -> Result<(), BackendError> {
            Ok(())
        }
    }

    /// Takes weights unless it is told to fail, and sees what is there meanwhile.
    struct Host {
        directory: PathBuf,
        fails: Arc<Mutex<bool>>,
        seen: Arc<Mutex<Vec<Vec<String>>>>,
    }

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[async_trait]
    impl WeightsReceiver for Host {
        async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
            let WeightsSource::Model(directory) = &weights.source else { panic!("{weights:?}") };
            assert_eq!(std::fs::read_to_string(directory.join("weights")).unwrap(), "whole");
            self.seen.lock().unwrap().push(names(&self.directory));
            match *self.fails.lock().unwrap() {
                true => Err(BackendError::Unavailable { message: "it is away".into() }),
                false => Ok(()),
            }
        }
    }

    #[tokio::test]
    async fn weights_that_hosts_may_still_read_are_kept_until_the_next_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let published = directory.path().join("published");
        // Of a process that died: what it had published, and what it was writing.
        for left in ["000003", "000004", "000005.new"] {
            std::fs::create_dir_all(published.join(left)).unwrap();
        }
        let fails: Arc<Mutex<bool>> = Arc::default();
        let seen: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
        let host = Host { directory: published.clone(), fails: fails.clone(), seen: seen.clone() };
        let learner = PublishingLearner::new(Arc::new(Writer), host, published.clone(), WeightsSource::Model);
        // The same version again, and one that is refused: what is behind the model stays where it is.
        learner.publish_weights(WeightsVersion(4)).await.unwrap();
        assert_eq!(names(&published), ["000003", "000004"]);
        *fails.lock().unwrap() = true;
        learner.publish_weights(WeightsVersion(5)).await.unwrap_err();
        assert_eq!(names(&published), ["000003", "000004", "000005"]);
        *fails.lock().unwrap() = false;
        for version in [5, 6, 7] {
            learner.publish_weights(WeightsVersion(version)).await.unwrap();
        }
        assert_eq!(names(&published), ["000006", "000007"]);
        assert_eq!(seen.lock().unwrap().last().unwrap(), &["000005", "000006", "000007"]);
    }
}
