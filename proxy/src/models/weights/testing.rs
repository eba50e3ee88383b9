use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fulgurite_backends::{BackendError, NewWeights, SampleRequest, SampleStream, Sampler, SamplerInfo, WeightsSource};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{
    NewNamedWeights, NewPublication, OtherFiles, PublicationCause, Replaces, WeightsId, WeightsVersion,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{Semaphore, watch};

use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::weights::model_weights::{ModelWeights, WeightsOf};
use crate::models::weights::posted_weights::PostedWeights;
use crate::models::weights::without_new_weights::WithoutNewWeights;

/// A model's host that takes weights once the test allows it.
pub(super) struct Host {
    pub(super) permits: Semaphore,
    failures: Mutex<VecDeque<BackendError>>,
    requested: watch::Sender<Vec<u64>>,
    has: Mutex<Option<WeightsVersion>>,
}

impl Host {
    pub(super) fn new(failures: impl IntoIterator<Item = BackendError>) -> Arc<Self> {
        let failures = Mutex::new(failures.into_iter().collect());
        let (permits, requested) = (Semaphore::new(0), watch::Sender::default());
        Arc::new(Self { permits, failures, requested, has: Mutex::default() })
    }

    /// The versions that it was requested to load, once they are so many.
    pub(super) async fn requested(&self, count: usize) -> Vec<u64> {
        self.requested.subscribe().wait_for(|requested| requested.len() >= count).await.unwrap().clone()
    }
}

#[async_trait]
impl Sampler for Host {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        unreachable!()
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        *self.has.lock().unwrap()
    }

    async fn sample(&self, _: SampleRequest) -> Result<SampleStream, BackendError> {
        unreachable!()
    }

    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        self.requested.send_modify(|requested| requested.push(weights.version.0));
        self.permits.acquire().await.unwrap().forget();
        if let Some(error) = self.failures.lock().unwrap().pop_front() {
            return Err(error);
        }
        *self.has.lock().unwrap() = Some(weights.version);
        Ok(())
    }
}

/// Weights at a place that this machine does not see.
pub(super) fn posted(version: u64) -> PostedWeights {
    PostedWeights {
        source: WeightsSource::Adapter(format!("/nowhere/{version}").into()),
        base: None,
        run_id: None,
        version: Some(WeightsVersion(version)),
        replaces: Replaces::Older,
        cause: PublicationCause::Update,
    }
}

/// A model over a host, and a store.
pub(super) struct Hosted {
    pub(super) weights: ModelWeights,
    pub(super) gate: Gate,
    pub(super) host: Arc<Host>,
    pub(super) of: WeightsOf,
    directory: Arc<TempDir>,
}

impl Hosted {
    pub(super) async fn new(failures: impl IntoIterator<Item = BackendError>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let store = Store::open(&url, StoreOptions::default()).await.unwrap();
        Self::over(store, Arc::new(directory), failures)
    }

    /// The same model at another server of the store.
    pub(super) fn another_server(&self) -> Self {
        Self::over(self.of.store.clone(), Arc::clone(&self.directory), [])
    }

    fn over(store: Store, directory: Arc<TempDir>, failures: impl IntoIterator<Item = BackendError>) -> Self {
        let (gate, host) = (Gate::default(), Host::new(failures));
        let weights = ModelWeights::new(gate.clone());
        let sampler: Arc<dyn Sampler> = host.clone();
        let without_new_weights = WithoutNewWeights::Serve;
        let of = WeightsOf { model: "m".into(), sampler, store, without_new_weights };
        Self { weights, gate, host, of, directory }
    }

    /// The directory of the store.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn post(&self, posted: PostedWeights) -> impl Future<Output = Result<(), Arc<ProxyError>>> + use<> {
        let (weights, of) = (self.weights.clone(), self.of.clone());
        async move { weights.post(&of, posted).await }
    }

    /// The version that is published.
    pub(super) async fn published(&self) -> Option<u64> {
        self.of.store.weights().publication("m").await.unwrap().map(|published| published.weights.version)
    }

    /// Publishes weights as another server does.
    pub(super) async fn publish_elsewhere(&self, version: u64) {
        let weights_id = WeightsId::of_digest([version as u8; 32]);
        let new = NewNamedWeights::of_no_run("m", weights_id, version);
        self.of.store.weights().name(new).await.unwrap();
        let source = json!(WeightsSource::Model(format!("/elsewhere/{version}").into()));
        let (replaces, cause) = (Replaces::Anything, PublicationCause::Update);
        let (model, other_files) = ("m".to_owned(), OtherFiles::Refuse);
        let new =
            NewPublication { model, version, source, files_id: None, base_id: None, other_files, replaces, cause };
        self.of.store.weights().publish(new).await.unwrap();
    }
}
