//! The protocol of publications as a model: several servers of one store, which post, follow, crash, restart and fail to
//! load in any order. Whatever happened, once it is quiet each server samples from what was published last.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fulgurite_backends::{BackendError, NewWeights, SampleRequest, SampleStream, Sampler, SamplerInfo, WeightsSource};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{Publication, PublicationCause, Replaces, ServingState, WeightsVersion};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use tokio::sync::Notify;

use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::weights::model_weights::{CaughtUp, ModelWeights, WeightsOf};
use crate::models::weights::posted_weights::PostedWeights;
use crate::models::weights::without_new_weights::WithoutNewWeights;

/// Servers that there are at most.
const SERVERS: usize = 3;
/// Directories of weights.
const PLACES: u64 = 5;

/// What happens to the servers. A server is known by its place, a set of weights by its directory.
#[derive(Clone, Debug)]
enum Happening {
    /// Somebody posts weights.
    Post { server: usize, place: u64, version: Option<u64>, replaces: Replaces },
    /// A server ends after it has loaded posted weights, and before they are published.
    CrashBetween { server: usize, place: u64, version: u64 },
    /// Two servers get weights at once.
    Race { posts: [(u64, u64); 2] },
    /// Weights that were published before come back.
    Rollback { server: usize, choice: usize },
    /// A server looks at what is published.
    Look { server: usize },
    /// A server ends and is started again; or it joins.
    Restart { server: usize },
    /// A server can, or cannot, load weights from now on.
    Reads { server: usize, can: bool },
}

fn replaces() -> impl Strategy<Value = Replaces> {
    prop_oneof![Just(Replaces::Older), Just(Replaces::Anything), (0..8_u64).prop_map(Replaces::Version)]
}

fn happening() -> impl Strategy<Value = Happening> {
    let (server, place) = (0..SERVERS, 0..PLACES);
    let version = prop_oneof![1 => Just(None), 3 => (0..8_u64).prop_map(Some)];
    prop_oneof![
        4 => (server.clone(), place.clone(), version, replaces())
            .prop_map(|(server, place, version, replaces)| Happening::Post { server, place, version, replaces }),
        1 => (server.clone(), place.clone(), 0..8_u64)
            .prop_map(|(server, place, version)| Happening::CrashBetween { server, place, version }),
        2 => prop::array::uniform2((place, 0..8_u64)).prop_map(|posts| Happening::Race { posts }),
        1 => (server.clone(), 0..8_usize).prop_map(|(server, choice)| Happening::Rollback { server, choice }),
        3 => server.clone().prop_map(|server| Happening::Look { server }),
        1 => server.clone().prop_map(|server| Happening::Restart { server }),
        1 => (server, any::<bool>()).prop_map(|(server, can)| Happening::Reads { server, can }),
    ]
}

/// What a server samples from.
#[derive(Default)]
struct Host {
    has: Mutex<Option<NewWeights>>,
    can_read: Arc<AtomicBool>,
    /// Whether the next load is the last thing that its server does.
    ends_after_load: AtomicBool,
    loaded: Notify,
}

#[async_trait]
impl Sampler for Host {
    async fn info(&self) -> Result<SamplerInfo, BackendError> {
        unreachable!()
    }

    fn weights_version(&self) -> Option<WeightsVersion> {
        Some(self.has.lock().unwrap().as_ref().map_or(WeightsVersion(0), |weights| weights.version))
    }

    async fn sample(&self, _: SampleRequest) -> Result<SampleStream, BackendError> {
        unreachable!()
    }

    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        tokio::task::yield_now().await;
        if !self.can_read.load(Ordering::Relaxed) {
            return Err(BackendError::Files { path: "/weights".into(), message: "no such file".into() });
        }
        *self.has.lock().unwrap() = Some(weights.clone());
        if self.ends_after_load.load(Ordering::Relaxed) {
            self.loaded.notify_one();
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

/// One process of a server.
struct Server {
    weights: ModelWeights,
    host: Arc<Host>,
    of: WeightsOf,
}

impl Server {
    fn start(store: &Store, can_read: &Arc<AtomicBool>) -> Self {
        let host = Arc::new(Host { can_read: Arc::clone(can_read), ..Host::default() });
        let (sampler, without_new_weights): (Arc<dyn Sampler>, _) = (host.clone(), WithoutNewWeights::Refuse);
        let of = WeightsOf { model: "m".into(), sampler, store: store.clone(), without_new_weights };
        Self { weights: ModelWeights::new(Gate::default()), host, of }
    }
}

struct World {
    store: Store,
    directory: tempfile::TempDir,
    servers: Vec<Server>,
    can_read: Vec<Arc<AtomicBool>>,
    /// What each version was first seen to name.
    names: BTreeMap<u64, String>,
    /// What was in force, in order.
    history: Vec<Publication>,
}

impl World {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for place in 0..PLACES {
            let weights = directory.path().join(place.to_string());
            std::fs::create_dir(&weights).unwrap();
            std::fs::write(weights.join("model.safetensors"), place.to_string()).unwrap();
        }
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let options = StoreOptions { synchronous: fulgurite_store::Synchronous::Normal, ..StoreOptions::default() };
        let store = Store::open(&url, options).await.unwrap();
        let can_read: Vec<_> = (0..SERVERS).map(|_| Arc::new(AtomicBool::new(true))).collect();
        let servers = can_read.iter().map(|can_read| Server::start(&store, can_read)).collect();
        Self { store, directory, servers, can_read, names: BTreeMap::new(), history: Vec::new() }
    }

    fn posted(&self, place: u64, version: Option<u64>, replaces: Replaces) -> PostedWeights {
        PostedWeights {
            source: WeightsSource::Model(self.directory.path().join(place.to_string())),
            run_id: None,
            version: version.map(WeightsVersion),
            replaces,
            cause: PublicationCause::Update,
        }
    }

    async fn put(&self, server: usize, posted: PostedWeights) -> Result<(), ProxyError> {
        let Server { weights, of, .. } = &self.servers[server];
        weights.put(of, posted).await
    }

    async fn happens(&mut self, happening: Happening) -> Result<(), TestCaseError> {
        let before = self.store.publication("m").await.unwrap();
        match happening {
            Happening::Post { server, place, version, replaces } => {
                let posted = self.posted(place, version, replaces);
                let put = self.put(server, posted).await;
                let after = self.store.publication("m").await.unwrap();
                match (put, &before, &after) {
                    (Ok(()), _, after) => {
                        let after = after.as_ref().unwrap();
                        prop_assert!(version.is_none_or(|version| after.weights.version == version));
                        if let Some(before) = &before {
                            let (old, new) = (before.weights.version, after.weights.version);
                            prop_assert!(old == new || replaces.allows(new, old), "{new} for {old} by {replaces:?}");
                        }
                    }
                    (Err(_), before, after) => prop_assert_eq!(before, after),
                }
            }
            Happening::CrashBetween { server, place, version } => {
                let posted = self.posted(place, Some(version), Replaces::Anything);
                let crashing = &self.servers[server];
                crashing.host.ends_after_load.store(true, Ordering::Relaxed);
                tokio::select! {
                    biased;
                    () = crashing.host.loaded.notified() => {}
                    put = crashing.weights.put(&crashing.of, posted) => prop_assert!(put.is_err()),
                }
                prop_assert_eq!(&self.store.publication("m").await.unwrap(), &before);
                self.servers[server] = Server::start(&self.store, &self.can_read[server]);
            }
            Happening::Race { posts: [one, other] } => {
                let post =
                    |server, (place, version)| self.put(server, self.posted(place, Some(version), Replaces::Older));
                let (one_put, other_put) = tokio::join!(post(0, one), post(1, other));
                let after = self.store.publication("m").await.unwrap().map(|after| after.weights.version);
                let taken = [(one_put.is_ok(), one.1), (other_put.is_ok(), other.1)];
                let taken = taken.into_iter().filter(|(is_taken, _)| *is_taken).map(|(_, version)| version);
                let greatest = taken.chain(before.map(|before| before.weights.version)).max();
                prop_assert!(after == greatest, "{after:?} where {greatest:?} was the newest that was taken");
            }
            Happening::Rollback { server, choice } if !self.history.is_empty() => {
                let Publication { weights, source, .. } = self.history[choice % self.history.len()].clone();
                let posted = PostedWeights {
                    source: serde_json::from_value(source).unwrap(),
                    run_id: None,
                    version: Some(WeightsVersion(weights.version)),
                    replaces: Replaces::Anything,
                    cause: PublicationCause::Rollback,
                };
                if self.put(server, posted).await.is_ok() {
                    let after = self.store.publication("m").await.unwrap().unwrap();
                    prop_assert_eq!(after.weights, weights);
                }
            }
            Happening::Rollback { .. } => {}
            Happening::Look { server } => self.look(server).await?,
            Happening::Restart { server } => {
                self.servers[server] = Server::start(&self.store, &self.can_read[server]);
                self.look(server).await?;
            }
            Happening::Reads { server, can } => self.can_read[server].store(can, Ordering::Relaxed),
        }
        self.note().await
    }

    /// A server that looks has what is published, or has what it had and says so.
    async fn look(&self, server: usize) -> Result<(), TestCaseError> {
        let Server { weights, host, of } = &self.servers[server];
        let had = host.has.lock().unwrap().clone();
        let caught_up = weights.catch_up(of).await;
        let has = host.has.lock().unwrap().clone();
        match (caught_up, self.store.publication("m").await.unwrap()) {
            (CaughtUp::Serving, Some(published)) => {
                prop_assert_eq!(has.unwrap().version.0, published.weights.version);
                prop_assert_eq!(weights.status().state, ServingState::Serving);
            }
            (CaughtUp::Failed, Some(_)) => {
                prop_assert_eq!(has, had);
                prop_assert_eq!(weights.status().state, ServingState::Refusing);
            }
            (CaughtUp::NothingPublished, None) => prop_assert_eq!(has, had),
            (caught_up, published) => prop_assert!(false, "{caught_up:?} {published:?}"),
        }
        Ok(())
    }

    /// A version names the same weights as ever.
    async fn note(&mut self) -> Result<(), TestCaseError> {
        for named in self.store.named_weights("m", None).await.unwrap() {
            // Who could not load weights may take their version back, as long as nobody had them.
            let id = named.weights_id.to_string();
            let was_published = self.history.iter().any(|published| published.weights.version == named.version);
            let known = self.names.insert(named.version, id.clone());
            prop_assert!(!was_published || known.is_none_or(|known| known == id), "version {}", named.version);
        }
        let published = self.store.publication("m").await.unwrap();
        if let Some(published) = published
            && self.history.last() != Some(&published)
        {
            for earlier in self.history.iter().filter(|earlier| earlier.weights.version == published.weights.version) {
                prop_assert_eq!(&earlier.source, &published.source, "a version's files");
            }
            self.history.push(published);
        }
        Ok(())
    }

    async fn comes_to_rest(&self) -> Result<(), TestCaseError> {
        let published = self.store.publication("m").await.unwrap();
        for (server, can_read) in self.can_read.iter().enumerate() {
            can_read.store(true, Ordering::Relaxed);
            self.look(server).await?;
            let Some(published) = &published else { continue };
            let has = self.servers[server].host.has.lock().unwrap().clone().unwrap();
            prop_assert_eq!(has.version.0, published.weights.version);
            prop_assert_eq!(serde_json::to_value(has.source).unwrap(), published.source.clone());
        }
        prop_assert_eq!(self.store.publication("m").await.unwrap(), published);
        Ok(())
    }
}

#[test]
fn whatever_happened_every_server_ends_on_what_was_published_last() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    proptest!(Config { cases: 96, failure_persistence: None, ..Config::default() }, |(
        happenings in proptest::collection::vec(happening(), 1..24)
    )| {
        runtime.block_on(async {
            let mut world = World::new().await;
            for happening in happenings {
                world.happens(happening).await?;
            }
            let outcome = world.comes_to_rest().await;
            world.store.close().await;
            outcome
        })?;
    });
}
