use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use fulgurite_types::WeightsVersion;
use tokio::time::MissedTickBehavior;

use super::choice::order;
use super::options::ReplicaOptions;
use super::replica::{Replica, TargetWeights};
use crate::{BackendError, NewWeights, PromptScores, SampleRequest, SampleStream, Sampler, SamplerInfo, WeightsSource};

/// Several hosts of one model as one sampler.
///
/// Requests of one affinity go to one host, as long as it is well, since its cache holds the beginnings of their
/// prompts; each host gets its share of the affinities, and losing one moves only that one's (rendezvous hashing).
/// Requests without go to the host with the least to do. A host that fails before an answer's first token is passed
/// over for another; after it, nothing is tried again, since what was sampled has left. With every host given up, they
/// are asked all the same: refusing would help nobody.
pub struct Replicas {
    replicas: Vec<Arc<Replica<Arc<dyn Sampler>>>>,
    wanted: TargetWeights,
}

impl Replicas {
    /// Puts hosts, each with a name that tells it from the others, behind one sampler. Must be called within a tokio
    /// runtime where hosts are checked for health.
    pub fn new(hosts: Vec<(String, Arc<dyn Sampler>)>, options: &ReplicaOptions) -> Self {
        let replica = |(name, sampler)| Arc::new(Replica::new(name, sampler, options));
        let replicas: Vec<Arc<Replica<Arc<dyn Sampler>>>> = hosts.into_iter().map(replica).collect();
        let wanted = TargetWeights::default();
        if let Some(interval) = options.health_interval {
            for replica in &replicas {
                #[expect(clippy::disallowed_methods, reason = "it holds the replica weakly, and ends with it")]
                tokio::spawn(watch(Arc::downgrade(replica), wanted.clone(), interval));
            }
        }
        Self { replicas, wanted }
    }

    /// The hosts that have the weights that they are to have.
    fn current(&self) -> Vec<Arc<Replica<Arc<dyn Sampler>>>> {
        self.replicas.iter().filter(|replica| !replica.lacks_weights()).cloned().collect()
    }

    /// Why no host can be used.
    fn no_host(&self) -> BackendError {
        match self.replicas.is_empty() {
            true => BackendError::Configuration { message: "the model has no hosts".to_owned() },
            false => BackendError::Unavailable { message: "no host has taken the newest weights".to_owned() },
        }
    }

    /// The hosts in the order in which they are tried.
    fn order(&self, affinity: Option<&str>) -> Vec<Arc<Replica<Arc<dyn Sampler>>>> {
        order(self.current(), affinity)
    }
}

/// Checks a host's health until it is no longer used.
async fn watch(replica: Weak<Replica<Arc<dyn Sampler>>>, wanted: TargetWeights, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(replica) = replica.upgrade() else { return };
        replica.watch(&wanted).await;
    }
}

#[async_trait]
impl Sampler for Replicas {
    /// As reported by the first host that can be used. One that lacks the newest weights has the same limits.
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        let mut failure = self.no_host();
        let mut replicas = order(self.replicas.clone(), None);
        replicas.sort_by_cached_key(|replica| replica.lacks_weights());
        for replica in replicas {
            match replica.host.info().await {
                Ok(info) => return Ok(info),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Known where all hosts have the same.
    fn weights_version(&self) -> Option<WeightsVersion> {
        let current = self.current();
        let mut versions = current.iter().map(|replica| replica.host.weights_version());
        let first = versions.next().flatten();
        versions.all(|version| version == first).then_some(first).flatten()
    }

    async fn sample(&self, request: SampleRequest) -> Result<SampleStream, BackendError> {
        let mut failure = self.no_host();
        for replica in self.order(request.affinity.as_deref()) {
            match replica.turn().await?.begin(request.clone()).await {
                Ok(stream) => return Ok(stream),
                Err(error) if error.is_hosts_fault() => {
                    tracing::warn!(host = %replica.name, %error, "a model host failed before the first token");
                    failure = error;
                }
                Err(error) => return Err(error),
            }
        }
        Err(failure)
    }

    async fn score_prompt(&self, prompt: &[u32], alternatives: usize) -> Result<PromptScores, BackendError> {
        let mut failure = self.no_host();
        for replica in self.order(None) {
            let mut turn = replica.turn().await?;
            let scores = replica.host.score_prompt(prompt, alternatives).await;
            turn.decide(!scores.as_ref().is_err_and(BackendError::is_hosts_fault));
            match scores {
                Err(error) if error.is_hosts_fault() => failure = error,
                scores => return scores,
            }
        }
        Err(failure)
    }

    /// At all hosts side by side. One that fails is asked for nothing until it has them, which is tried again whenever
    /// it is well; an error only if none has taken them. Then they go on with what they have, unless that may be neither
    /// these nor those that they are to have, which they are given again.
    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        // Once at a time.
        let mut wanted = self.wanted.write().await;
        let lacked: Vec<bool> = self.replicas.iter().map(|replica| replica.lacks_weights()).collect();
        let weights = Arc::new(weights.clone());
        let mut failure = self.no_host();
        let mut accepted = 0;
        #[expect(clippy::disallowed_methods, reason = "each is waited for below")]
        let loading: Vec<_> = (self.replicas.iter().cloned())
            .map(|replica| {
                let weights = weights.clone();
                tokio::spawn(async move { (replica.load_weights(weights).await, replica) })
            })
            .collect();
        for host in loading {
            match host.await.map_err(|error| BackendError::Internal { message: error.to_string() })? {
                (Ok(()), _) => accepted += 1,
                (Err(error), replica) => {
                    tracing::warn!(host = %replica.name, %error, "a model host does not take new weights");
                    failure = error;
                }
            }
        }
        if accepted == 0 {
            // A host that does not take an adapter, or what it keeps, has what it had.
            if wanted.is_none() || !matches!(weights.source, WeightsSource::Model(_)) {
                self.replicas.iter().zip(lacked).for_each(|(replica, lacked)| replica.set_lacks_weights(lacked));
            }
            return Err(failure);
        }
        *wanted = Some(weights);
        Ok(())
    }

    async fn prepare_sleep(&self) -> Result<(), BackendError> {
        for replica in &self.replicas {
            replica.host.prepare_sleep().await?;
        }
        Ok(())
    }

    async fn sleep(&self) -> Result<(), BackendError> {
        for replica in &self.replicas {
            replica.host.sleep().await?;
        }
        Ok(())
    }

    /// Each, though another fails.
    async fn wake(&self) -> Result<(), BackendError> {
        let mut woken = Ok(());
        for replica in &self.replicas {
            woken = woken.and(replica.host.wake().await);
        }
        woken
    }

    /// Whether any host is well.
    async fn check_health(&self) -> Result<(), BackendError> {
        let mut failure = self.no_host();
        for replica in &self.replicas {
            match replica.host.check_health().await {
                Ok(()) => return Ok(()),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}
