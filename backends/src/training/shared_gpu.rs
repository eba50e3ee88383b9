//! One GPU for whoever samples and whoever trains, by turns.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_types::{Datum, WeightsVersion};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::{
    AdamParameters, BackendError, Comparisons, ForwardBackward, GuardedStep, Learner, LossFunction, NewWeights,
    OptimizerStep, Sampler, WeightsReceiver,
};

/// How long after its last call the learner gives the GPU back, where nothing is published.
const IDLE: Duration = Duration::from_secs(2);

/// A learner that can leave its GPU to others.
#[async_trait]
pub trait GpuLearner: Learner {
    /// Moves all that it has off the GPU until the next pass.
    async fn release_gpu(&self) -> Result<(), BackendError>;

    /// Ends what computes, also in the middle of a pass. Later calls fail.
    fn end(&self);
}

/// Who has the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Hosts,
    Learner,
}

#[derive(Debug)]
struct Turns {
    owner: Owner,
    /// Calls of the learner so far.
    calls: u64,
}

/// A GPU that the hosts of a model and its learner have by turns. The hosts sleep while the learner makes its passes; they are
/// woken before weights are published, after a failed call, and after a while without calls.
pub struct SharedGpu {
    hosts: Arc<dyn Sampler>,
    learner: Arc<dyn GpuLearner>,
    /// Held during the learner's calls.
    turns: Arc<Mutex<Turns>>,
}

impl SharedGpu {
    /// The GPU is the hosts' until the learner's first pass.
    pub fn new(hosts: Arc<dyn Sampler>, learner: Arc<dyn GpuLearner>) -> Arc<Self> {
        let turns = Arc::new(Mutex::new(Turns { owner: Owner::Hosts, calls: 0 }));
        Arc::new(Self { hosts, learner, turns })
    }

    /// The learner, whose passes take the GPU.
    pub fn learner(self: &Arc<Self>) -> Arc<dyn Learner> {
        Arc::new(SharingLearner(Arc::clone(self)))
    }

    /// The hosts, which get the GPU back before they get weights.
    pub fn receiver(self: &Arc<Self>) -> impl WeightsReceiver + use<> {
        WokenHosts(Arc::clone(self))
    }

    /// Finds out whether the hosts can sleep, and wakes those that an earlier process left asleep.
    ///
    /// # Errors
    /// [`BackendError::Configuration`] with the command line to start a host with.
    pub async fn prepare(&self) -> Result<(), BackendError> {
        self.hosts.prepare_sleep().await
    }

    /// Wakes the hosts when a run has ended, however it did; a pass under way is ended.
    ///
    /// # Errors
    /// If a host does not wake.
    pub async fn close(&self) -> Result<(), BackendError> {
        let mut turns = Arc::clone(&self.turns).lock_owned().await;
        if turns.owner == Owner::Learner {
            self.learner.end();
        }
        self.give_back(&mut turns).await
    }

    async fn learners_turn(&self) -> Result<OwnedMutexGuard<Turns>, BackendError> {
        let mut turns = Arc::clone(&self.turns).lock_owned().await;
        if turns.owner == Owner::Hosts {
            // Before the request: whoever is interrupted meanwhile wakes them.
            turns.owner = Owner::Learner;
            if let Err(error) = self.hosts.sleep().await {
                self.give_back_after_failure(&mut turns).await;
                return Err(error);
            }
        }
        Ok(turns)
    }

    async fn hosts_turn(&self) -> Result<(), BackendError> {
        let mut turns = Arc::clone(&self.turns).lock_owned().await;
        self.give_back(&mut turns).await
    }

    async fn give_back(&self, turns: &mut Turns) -> Result<(), BackendError> {
        if turns.owner == Owner::Hosts {
            return Ok(());
        }
        // A learner that has ended has no memory any more.
        if let Err(error) = self.learner.release_gpu().await {
            tracing::info!(%error, "the learner does not release its GPU");
        }
        self.hosts.wake().await?;
        turns.owner = Owner::Hosts;
        Ok(())
    }

    async fn give_back_after_failure(&self, turns: &mut Turns) {
        if let Err(error) = self.give_back(turns).await {
            tracing::error!(%error, "a model host that slept during a pass is not awake");
        }
    }

    /// Does the learner's work while the hosts sleep.
    async fn pass<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, BackendError>> + Send,
    ) -> Result<T, BackendError> {
        let mut turns = self.learners_turn().await?;
        let done = work.await;
        turns.calls += 1;
        if done.is_err() {
            self.give_back_after_failure(&mut turns).await;
        } else {
            let (gpu, calls) = (Arc::downgrade(self), turns.calls);
            #[expect(clippy::disallowed_methods, reason = "it holds the GPU weakly, and ends after a while")]
            tokio::spawn(give_back_when_idle(gpu, calls));
        }
        done
    }
}

async fn give_back_when_idle(gpu: Weak<SharedGpu>, calls: u64) {
    tokio::time::sleep(IDLE).await;
    let Some(gpu) = gpu.upgrade() else { return };
    // A call under way has its own end.
    let Ok(mut turns) = Arc::clone(&gpu.turns).try_lock_owned() else { return };
    if turns.calls == calls {
        gpu.give_back_after_failure(&mut turns).await;
    }
}

struct WokenHosts(Arc<SharedGpu>);

#[async_trait]
impl WeightsReceiver for WokenHosts {
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        self.0.hosts_turn().await?;
        self.0.hosts.load_weights(weights).await
    }
}

struct SharingLearner(Arc<SharedGpu>);

#[async_trait]
impl Learner for SharingLearner {
    async fn forward(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.0.pass(self.0.learner.forward(data)).await
    }

    async fn entropies(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.0.pass(self.0.learner.entropies(data)).await
    }

    async fn keep_reference(&self) -> Result<(), BackendError> {
        self.0.learner.keep_reference().await
    }

    async fn forward_reference(&self, data: Arc<[Datum]>) -> Result<Vec<Vec<f32>>, BackendError> {
        self.0.pass(self.0.learner.forward_reference(data)).await
    }

    async fn forward_backward(&self, data: Arc<[Datum]>, loss: LossFunction) -> Result<ForwardBackward, BackendError> {
        self.0.pass(self.0.learner.forward_backward(data, loss)).await
    }

    async fn forward_backward_with_entropy(
        &self,
        data: Arc<[Datum]>,
        loss: LossFunction,
        entropy_weight: f32,
    ) -> Result<ForwardBackward, BackendError> {
        self.0.pass(self.0.learner.forward_backward_with_entropy(data, loss, entropy_weight)).await
    }

    async fn forward_backward_comparisons(
        &self,
        data: Arc<[Datum]>,
        comparisons: Arc<Comparisons>,
    ) -> Result<ForwardBackward, BackendError> {
        self.0.pass(self.0.learner.forward_backward_comparisons(data, comparisons)).await
    }

    async fn set_sampling_temperature(&self, temperature: f32) -> Result<(), BackendError> {
        self.0.learner.set_sampling_temperature(temperature).await
    }

    async fn optimizer_step(&self, parameters: AdamParameters) -> Result<OptimizerStep, BackendError> {
        self.0.pass(self.0.learner.optimizer_step(parameters)).await
    }

    async fn optimizer_step_within(&self, parameters: AdamParameters, most: f64) -> Result<GuardedStep, BackendError> {
        self.0.pass(self.0.learner.optimizer_step_within(parameters, most)).await
    }

    async fn save_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.0.learner.save_checkpoint(directory).await
    }

    async fn load_checkpoint(&self, directory: &Path) -> Result<(), BackendError> {
        self.0.learner.load_checkpoint(directory).await
    }

    async fn save_weights(&self, directory: &Path) -> Result<(), BackendError> {
        self.0.learner.save_weights(directory).await
    }

    async fn publish_weights(&self, version: WeightsVersion) -> Result<(), BackendError> {
        self.0.learner.publish_weights(version).await
    }
}
