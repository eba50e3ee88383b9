use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fulgurite_backends::{BackendError, NewWeights, Sampler};
use fulgurite_store::{Store, StoreError};
use fulgurite_types::{NewNamedWeights, NewPublication, PublicationCause, Replaces, WeightsId};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use serde_json::json;
use tokio::sync::watch;
use uuid::Uuid;

use crate::error::ProxyError;

/// Puts weights behind one model, once at a time.
#[derive(Clone, Default)]
pub(crate) struct WeightsLoads {
    shared: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The latest load, and its result.
    last: Mutex<Option<(NewWeights, Load)>>,
    /// Held while weights are put there and that is noted.
    turn: tokio::sync::Mutex<()>,
    /// Whether any were put there since the server was started.
    is_replaced: watch::Sender<bool>,
}

type Load = Shared<BoxFuture<'static, Result<(), Arc<ProxyError>>>>;

/// The pause before weights that could not be put back are tried again.
const PAUSE: Duration = Duration::from_secs(1);

impl WeightsLoads {
    /// Loads weights, and records them for a restarted server. It finishes even if its client leaves, so that no host is
    /// left in between. Requests for the same weights wait for the same load.
    pub(crate) async fn load(
        &self,
        model: &str,
        sampler: &Arc<dyn Sampler>,
        store: &Store,
        weights: NewWeights,
    ) -> Result<(), Arc<ProxyError>> {
        let load = {
            let mut last = self.shared.last.lock().unwrap_or_else(PoisonError::into_inner);
            match &*last {
                Some((same, load)) if *same == weights && load.peek().is_none() => load.clone(),
                _ => {
                    let load = self.begin(model.to_owned(), sampler.clone(), store.clone(), weights.clone());
                    last.insert((weights, load)).1.clone()
                }
            }
        };
        load.await
    }

    fn begin(&self, model: String, sampler: Arc<dyn Sampler>, store: Store, weights: NewWeights) -> Load {
        let shared = self.shared.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "a host is not to be left in the middle, and it is waited for below"
        )]
        let loading = tokio::spawn(async move {
            let _turn = shared.turn.lock().await;
            sampler.load_weights(&weights).await?;
            shared.is_replaced.send_replace(true);
            let version = weights.version.0;
            tracing::info!(model, version, "new weights are behind a model");
            Ok(publish(&store, model, &weights).await?)
        });
        let loaded = async {
            let loaded = loading.await.map_err(|error| BackendError::Internal { message: error.to_string() });
            loaded.map_err(ProxyError::from).and_then(|loaded| loaded).map_err(Arc::new)
        };
        let load = loaded.boxed().shared();
        // The end of the load is visible even if no request waits for it.
        #[expect(clippy::disallowed_methods, reason = "it ends with the loading that it waits for")]
        tokio::spawn(load.clone());
        load
    }

    /// Restores the weights from before a restart: retries until the host is reachable or has others. A host that will
    /// never take them continues with its own, whose version is recorded.
    pub(crate) async fn restore(&self, model: &str, sampler: &dyn Sampler, weights: &NewWeights) {
        let version = weights.version.0;
        let mut is_replaced = self.shared.is_replaced.subscribe();
        loop {
            let turn = self.shared.turn.lock().await;
            if *is_replaced.borrow() {
                return tracing::info!(
                    model,
                    version,
                    "the last weights are not put back behind a model that has others"
                );
            }
            match sampler.load_weights(weights).await {
                Ok(()) => return tracing::info!(model, version, "the last weights are behind a model again"),
                Err(error @ (BackendError::Unavailable { .. } | BackendError::Overloaded { .. })) => {
                    tracing::warn!(model, version, %error, "the last weights are put back once the model's host is there");
                }
                Err(error) => {
                    return tracing::error!(model, version, %error, "the last weights cannot be put back behind a model");
                }
            }
            drop(turn);
            // Whether it has others is seen above.
            let _ = tokio::time::timeout(PAUSE, is_replaced.wait_for(|is_replaced| *is_replaced)).await;
        }
    }
}

/// Records weights as those behind the model. A version that names none yet names these from now on.
async fn publish(store: &Store, model: String, weights: &NewWeights) -> Result<(), StoreError> {
    let version = weights.version.0;
    if store.weights_of_version(&model, version).await?.is_none() {
        let mut digest = [0; 32];
        digest[..16].copy_from_slice(Uuid::new_v4().as_bytes());
        let new = NewNamedWeights {
            model: model.clone(),
            weights_id: WeightsId::of_digest(digest),
            parent_id: None,
            run_id: None,
            step: None,
            preferred_version: version,
        };
        store.name_weights(new).await?;
    }
    let (source, replaces, cause) = (json!(weights.source), Replaces::Anything, PublicationCause::Update);
    store.publish_weights(NewPublication { model, version, source, replaces, cause }).await.map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use fulgurite_types::WeightsVersion;
    use std::collections::VecDeque;
    use std::path::PathBuf;

    use async_trait::async_trait;
    use fulgurite_backends::{SampleRequest, SampleStream, SamplerInfo, WeightsSource};
    use fulgurite_store::StoreOptions;
    use tokio::sync::Semaphore;

    use super::*;

    /// A model's host that takes weights once the test allows it.
    struct Host {
        lets: Semaphore,
        fails: Mutex<VecDeque<BackendError>>,
        requested: watch::Sender<Vec<u64>>,
    }

    impl Host {
        fn new(fails: impl IntoIterator<Item = BackendError>) -> Arc<Self> {
            let fails = Mutex::new(fails.into_iter().collect());
            Arc::new(Self { lets: Semaphore::new(0), fails, requested: watch::Sender::default() })
        }

        /// The versions that it was requested to load, once they are so many.
        async fn requested(&self, count: usize) -> Vec<u64> {
            self.requested.subscribe().wait_for(|requested| requested.len() >= count).await.unwrap().clone()
        }
    }

    #[async_trait]
    impl Sampler for Host {
        async fn info(&self) -> Result<SamplerInfo, BackendError> {
            unreachable!()
        }

        fn weights_version(&self) -> Option<WeightsVersion> {
            None
        }

        async fn sample(&self, _: SampleRequest) -> Result<SampleStream, BackendError> {
            unreachable!()
        }

        async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
            self.requested.send_modify(|requested| requested.push(weights.version.0));
            self.lets.acquire().await.unwrap().forget();
            self.fails.lock().unwrap().pop_front().map_or(Ok(()), Err)
        }
    }

    fn weights(version: u64) -> NewWeights {
        NewWeights { version: WeightsVersion(version), source: WeightsSource::Model(PathBuf::from("/w")) }
    }

    fn unreachable_host() -> BackendError {
        BackendError::Unavailable { message: "it is away".into() }
    }

    struct Setup {
        loads: WeightsLoads,
        host: Arc<Host>,
        store: Store,
        _directory: tempfile::TempDir,
    }

    impl Setup {
        async fn new(fails: impl IntoIterator<Item = BackendError>) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let url = format!("sqlite://{}", directory.path().join("test.db").display());
            let store = Store::open(&url, StoreOptions::default()).await.unwrap();
            Self { loads: WeightsLoads::default(), host: Host::new(fails), store, _directory: directory }
        }

        fn load(&self, version: u64) -> impl Future<Output = Result<(), Arc<ProxyError>>> + use<> {
            let (loads, store) = (self.loads.clone(), self.store.clone());
            let sampler: Arc<dyn Sampler> = self.host.clone();
            async move { loads.load("m", &sampler, &store, weights(version)).await }
        }

        fn restore(&self, version: u64) -> impl Future<Output = ()> + use<> {
            let (loads, host) = (self.loads.clone(), self.host.clone());
            async move { loads.restore("m", &*host, &weights(version)).await }
        }

        async fn noted(&self) -> Vec<u64> {
            self.store.publications().await.unwrap().into_iter().map(|published| published.weights.version).collect()
        }
    }

    #[tokio::test]
    async fn weights_that_are_asked_for_again_while_they_are_loaded_are_loaded_once() {
        let setup = Setup::new([]).await;
        let first = tokio::spawn(setup.load(3));
        setup.host.requested(1).await;
        // The first request has been cancelled.
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let (again, more) = (tokio::spawn(setup.load(3)), tokio::spawn(setup.load(3)));
        tokio::task::yield_now().await;
        setup.host.lets.add_permits(3);
        again.await.unwrap().unwrap();
        more.await.unwrap().unwrap();
        assert_eq!((setup.host.requested(1).await, setup.noted().await), (vec![3], vec![3]));
        // What has come since then under the same name is other weights.
        setup.load(3).await.unwrap();
        setup.load(4).await.unwrap();
        assert_eq!((setup.host.requested(1).await, setup.noted().await), (vec![3, 3, 4], vec![4]));
    }

    #[tokio::test]
    async fn weights_that_are_put_back_make_way_for_others() {
        let setup = Setup::new([unreachable_host()]).await;
        let restored = tokio::spawn(setup.restore(3));
        setup.host.requested(1).await;
        let new = tokio::spawn(setup.load(4));
        setup.host.lets.add_permits(3);
        new.await.unwrap().unwrap();
        restored.await.unwrap();
        assert_eq!(setup.host.requested(2).await, [3, 4]);
    }

    #[tokio::test]
    async fn others_that_fail_leave_those_that_are_put_back_their_place() {
        let mistyped = || BackendError::Configuration { message: "no such path".into() };
        let setup = Setup::new([unreachable_host(), mistyped()]).await;
        let restored = tokio::spawn(setup.restore(3));
        setup.host.requested(1).await;
        let new = tokio::spawn(setup.load(4));
        setup.host.lets.add_permits(3);
        new.await.unwrap().unwrap_err();
        restored.await.unwrap();
        assert_eq!(setup.host.requested(3).await, [3, 4, 3]);
    }

    #[tokio::test]
    async fn a_host_that_answers_and_fails_is_not_asked_to_take_weights_back_again() {
        let setup = Setup::new([BackendError::Internal { message: "out of memory".into() }]).await;
        setup.host.lets.add_permits(2);
        setup.restore(3).await;
        assert_eq!(setup.host.requested(1).await, [3]);
    }
}
