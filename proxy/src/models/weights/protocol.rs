//! The protocol of publications as a model: several servers of one store, which post, follow, crash, restart and fail to
//! load in any order. Whatever happened, once it is quiet each server samples from what was published last, an adapter over
//! the base that it was published for, or takes no calls and says why.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use fulgurite_backends::{
    BackendError, NewWeights, SampleRequest, SampleStream, Sampler, SamplerInfo, WeightsSource, weights_fingerprint,
};
use fulgurite_store::{Store, StoreOptions};
use fulgurite_types::{
    NewNamedWeights, NewRun, Publication, PublicationCause, Replaces, ServingState, WeightsId, WeightsVersion,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use serde_json::json;
use tokio::sync::Notify;

use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::weights::model_weights::{CaughtUp, ModelWeights, WeightsOf};
use crate::models::weights::posted_weights::PostedWeights;
use crate::models::weights::without_new_weights::WithoutNewWeights;

/// Servers that there are at most.
const SERVERS: usize = 3;
/// The model that each server is started with: one of them has another.
const OWN: [u8; SERVERS] = [1, 1, 2];
/// Directories of weights: whole models, and adapters from this one on.
const PLACES: u64 = 8;
const ADAPTERS: u64 = 5;
/// The version that a run has named before it posts.
const OF_RUN: u64 = 9;

/// What happens to the servers. A server is known by its place, a set of weights by its directory.
#[derive(Clone, Debug)]
enum Happening {
    /// Somebody posts weights.
    Post { server: usize, place: u64, version: Option<u64>, base: Option<u8>, replaces: Replaces },
    /// Weights are posted as the run's, from a directory that it does not publish in.
    PostAsRun { server: usize, place: u64 },
    /// The run makes its version, or makes it again in other bytes, and publishes it.
    RunPublishes { server: usize, bytes: u8 },
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
    let base = prop_oneof![2 => Just(None), 1 => (1..3_u8).prop_map(Some)];
    prop_oneof![
        4 => (server.clone(), place.clone(), version, base, replaces()).prop_map(
            |(server, place, version, base, replaces)| Happening::Post { server, place, version, base, replaces }
        ),
        1 => (server.clone(), place.clone()).prop_map(|(server, place)| Happening::PostAsRun { server, place }),
        1 => (server.clone(), 0..3_u8).prop_map(|(server, bytes)| Happening::RunPublishes { server, bytes }),
        1 => (server.clone(), place.clone(), 0..8_u64)
            .prop_map(|(server, place, version)| Happening::CrashBetween { server, place, version }),
        2 => prop::array::uniform2((place, 0..8_u64)).prop_map(|posts| Happening::Race { posts }),
        1 => (server.clone(), 0..8_usize).prop_map(|(server, choice)| Happening::Rollback { server, choice }),
        3 => server.clone().prop_map(|server| Happening::Look { server }),
        1 => server.clone().prop_map(|server| Happening::Restart { server }),
        1 => (server, any::<bool>()).prop_map(|(server, can)| Happening::Reads { server, can }),
    ]
}

/// What a server computes with.
#[derive(Clone, Debug, PartialEq)]
struct Behind {
    weights: NewWeights,
    /// The files as they were loaded.
    files_id: WeightsId,
    /// What an adapter is over.
    base_id: Option<WeightsId>,
}

fn base_id(own: u8) -> WeightsId {
    WeightsId::of_digest([own; 32])
}

/// What a server samples from.
#[derive(Default)]
struct Host {
    own: u8,
    has: Mutex<Option<Behind>>,
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
        Some(self.has.lock().unwrap().as_ref().map_or(WeightsVersion(0), |behind| behind.weights.version))
    }

    async fn sample(&self, _: SampleRequest) -> Result<SampleStream, BackendError> {
        unreachable!()
    }

    async fn load_weights(&self, weights: &NewWeights) -> Result<(), BackendError> {
        tokio::task::yield_now().await;
        if !self.can_read.load(Ordering::Relaxed) {
            return Err(BackendError::Files { path: "/weights".into(), message: "no such file".into() });
        }
        // Of adapters, a host of this contract has them over what it was started with.
        let (directory, base_id) = match &weights.source {
            WeightsSource::Model(directory) => (directory, None),
            WeightsSource::Adapter(directory) => (directory, Some(base_id(self.own))),
            WeightsSource::Kept(_) => unreachable!(),
        };
        let files_id = weights_fingerprint(directory)?;
        *self.has.lock().unwrap() = Some(Behind { weights: weights.clone(), files_id, base_id });
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
    fn start(store: &Store, own: u8, can_read: &Arc<AtomicBool>) -> Self {
        let host = Arc::new(Host { own, can_read: Arc::clone(can_read), ..Host::default() });
        let (sampler, without_new_weights): (Arc<dyn Sampler>, _) = (host.clone(), WithoutNewWeights::Refuse);
        let of = WeightsOf { model: "m".into(), sampler, store: store.clone(), without_new_weights };
        let weights = ModelWeights::new(Gate::default());
        weights.has_of_its_own(base_id(own));
        Self { weights, host, of }
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
            write(&directory.path().join(place.to_string()), &place.to_string());
        }
        let url = format!("sqlite://{}", directory.path().join("test.db").display());
        let options = StoreOptions { synchronous: fulgurite_store::Synchronous::Normal, ..StoreOptions::default() };
        let store = Store::open(&url, options).await.unwrap();
        let run = directory.path().join("run");
        let config = json!({ "run_directory": run });
        store.runs().create(NewRun { run_id: "r".into(), name: "r".into(), config, seed: 0 }).await.unwrap();
        let of_run = NewNamedWeights::of_no_run("m", WeightsId::of_digest([9; 32]), OF_RUN);
        store.weights().name(NewNamedWeights { run_id: Some("r".into()), step: Some(9), ..of_run }).await.unwrap();
        let can_read: Vec<_> = (0..SERVERS).map(|_| Arc::new(AtomicBool::new(true))).collect();
        let servers = (can_read.iter().zip(OWN)).map(|(can_read, own)| Server::start(&store, own, can_read)).collect();
        Self { store, directory, servers, can_read, names: BTreeMap::new(), history: Vec::new() }
    }

    fn posted(&self, place: u64, version: Option<u64>, replaces: Replaces) -> PostedWeights {
        let directory = self.directory.path().join(place.to_string());
        PostedWeights {
            source: if place < ADAPTERS { WeightsSource::Model(directory) } else { WeightsSource::Adapter(directory) },
            base: None,
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
        let before = self.store.weights().publication("m").await.unwrap();
        match happening {
            Happening::Post { server, place, version, base, replaces } => {
                let base = base.filter(|_| place >= ADAPTERS);
                let posted = PostedWeights { base: base.map(base_id), ..self.posted(place, version, replaces) };
                let put = self.put(server, posted).await;
                let after = self.store.weights().publication("m").await.unwrap();
                match (put, &before, &after) {
                    (Ok(()), _, after) => {
                        let after = after.as_ref().unwrap();
                        prop_assert!(version.is_none_or(|version| after.weights.version == version));
                        prop_assert_eq!(after.base_id, (place >= ADAPTERS).then(|| base_id(OWN[server])));
                        prop_assert!(base.is_none_or(|base| base == OWN[server]));
                        if let Some(before) = &before {
                            let (old, new) = (before.weights.version, after.weights.version);
                            prop_assert!(old == new || replaces.allows(new, old), "{new} for {old} by {replaces:?}");
                        }
                    }
                    (Err(_), before, after) => prop_assert_eq!(before, after),
                }
            }
            Happening::PostAsRun { server, place } => self.post_as_run(server, place).await?,
            Happening::RunPublishes { server, bytes } => self.publish_by_run(server, bytes).await?,
            Happening::CrashBetween { server, place, version } => {
                let posted = self.posted(place, Some(version), Replaces::Anything);
                let crashing = &self.servers[server];
                crashing.host.ends_after_load.store(true, Ordering::Relaxed);
                tokio::select! {
                    biased;
                    () = crashing.host.loaded.notified() => {}
                    put = crashing.weights.put(&crashing.of, posted) => prop_assert!(put.is_err()),
                }
                prop_assert_eq!(&self.store.weights().publication("m").await.unwrap(), &before);
                self.restart(server);
            }
            Happening::Race { posts } => self.race(posts, before).await?,
            Happening::Rollback { server, choice } => self.roll_back(server, choice).await?,
            Happening::Look { server } => self.look(server).await?,
            Happening::Restart { server } => {
                self.restart(server);
                self.look(server).await?;
            }
            Happening::Reads { server, can } => self.can_read[server].store(can, Ordering::Relaxed),
        }
        self.note().await
    }

    async fn post_as_run(&self, server: usize, place: u64) -> Result<(), TestCaseError> {
        let known = self.store.weights().published_files("m", OF_RUN).await.unwrap();
        let posted = self.posted(place % ADAPTERS, Some(OF_RUN), Replaces::Anything);
        let WeightsSource::Model(directory) = &posted.source else { unreachable!() };
        let files_id = Some(weights_fingerprint(directory).unwrap());
        let is_put = self.put(server, PostedWeights { run_id: Some("r".into()), ..posted }).await.is_ok();
        prop_assert!(!is_put || known.is_none_or(|known| known.files_id == files_id));
        Ok(())
    }

    async fn publish_by_run(&self, server: usize, bytes: u8) -> Result<(), TestCaseError> {
        let directory = self.published_by_run();
        let before = std::fs::read_to_string(directory.join("model.safetensors"));
        write(&directory, &format!("update {bytes}"));
        let source = WeightsSource::Model(directory.clone());
        let posted = self.posted(0, Some(OF_RUN), Replaces::Anything);
        let posted = PostedWeights { source, run_id: Some("r".into()), ..posted };
        let is_put = self.put(server, posted).await.is_ok();
        prop_assert_eq!(is_put, self.can_read[server].load(Ordering::Relaxed));
        if let (false, Ok(before)) = (is_put, before) {
            write(&directory, &before);
        }
        Ok(())
    }

    async fn race(&self, [one, other]: [(u64, u64); 2], before: Option<Publication>) -> Result<(), TestCaseError> {
        let post = |server, (place, version)| self.put(server, self.posted(place, Some(version), Replaces::Older));
        let (one_put, other_put) = tokio::join!(post(0, one), post(1, other));
        let after = self.store.weights().publication("m").await.unwrap().map(|after| after.weights.version);
        let accepted = [(one_put.is_ok(), one.1), (other_put.is_ok(), other.1)];
        let accepted = accepted.into_iter().filter(|(is_accepted, _)| *is_accepted).map(|(_, version)| version);
        let greatest = accepted.chain(before.map(|before| before.weights.version)).max();
        prop_assert!(after == greatest, "{after:?} where {greatest:?} was the newest that was taken");
        Ok(())
    }

    async fn roll_back(&self, server: usize, choice: usize) -> Result<(), TestCaseError> {
        if self.history.is_empty() {
            return Ok(());
        }
        let Publication { weights, source, base_id, .. } = self.history[choice % self.history.len()].clone();
        let posted = PostedWeights {
            source: serde_json::from_value(source).unwrap(),
            base: base_id,
            run_id: weights.run_id.clone(),
            version: Some(WeightsVersion(weights.version)),
            replaces: Replaces::Anything,
            cause: PublicationCause::Rollback,
        };
        if self.put(server, posted).await.is_ok() {
            let after = self.store.weights().publication("m").await.unwrap().unwrap();
            prop_assert_eq!(after.weights, weights);
        }
        Ok(())
    }

    fn published_by_run(&self) -> PathBuf {
        self.directory.path().join(format!("run/published/{OF_RUN:06}"))
    }

    fn restart(&mut self, server: usize) {
        self.servers[server] = Server::start(&self.store, OWN[server], &self.can_read[server]);
    }

    /// A server that looks has what is published, or has what it had and says so.
    async fn look(&self, server: usize) -> Result<(), TestCaseError> {
        let Server { weights, host, of } = &self.servers[server];
        let had = host.has.lock().unwrap().clone();
        let caught_up = weights.catch_up(of).await;
        let has = host.has.lock().unwrap().clone();
        match (caught_up, self.store.weights().publication("m").await.unwrap()) {
            (CaughtUp::Serving, Some(published)) => {
                is_published(&has.unwrap(), &published)?;
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
        for named in self.store.weights().named("m", None).await.unwrap() {
            // Who could not load weights may take their version back, as long as nobody had them.
            let id = named.weights_id.to_string();
            let was_published = self.history.iter().any(|published| published.weights.version == named.version);
            let known = self.names.insert(named.version, id.clone());
            prop_assert!(!was_published || known.is_none_or(|known| known == id), "version {}", named.version);
        }
        let published = self.store.weights().publication("m").await.unwrap();
        if let Some(published) = published
            && self.history.last() != Some(&published)
        {
            let mut earlier = self.history.iter().rev();
            if let Some(earlier) = earlier.find(|earlier| earlier.weights.version == published.weights.version) {
                let is_runs_own = published.source == json!({ "model": self.published_by_run() });
                prop_assert!(earlier.files_id == published.files_id || is_runs_own, "the files of {published:?}");
                prop_assert_eq!(earlier.base_id, published.base_id);
            }
            self.history.push(published);
        }
        Ok(())
    }

    async fn comes_to_rest(&self) -> Result<(), TestCaseError> {
        let published = self.store.weights().publication("m").await.unwrap();
        for (server, can_read) in self.can_read.iter().enumerate() {
            can_read.store(true, Ordering::Relaxed);
            self.look(server).await?;
            let Some(published) = &published else { continue };
            let Server { weights, host, .. } = &self.servers[server];
            let status = weights.status();
            if published.base_id.is_some_and(|base| base != base_id(OWN[server])) {
                prop_assert_eq!(status.state, ServingState::Refusing);
                prop_assert!(status.message.is_some_and(|message| message.contains("was started with")));
                continue;
            }
            prop_assert_eq!(status.state, ServingState::Serving);
            is_published(host.has.lock().unwrap().as_ref().unwrap(), published)?;
        }
        prop_assert_eq!(self.store.weights().publication("m").await.unwrap(), published);
        Ok(())
    }
}

fn write(directory: &Path, bytes: &str) {
    std::fs::create_dir_all(directory).unwrap();
    std::fs::write(directory.join("model.safetensors"), bytes).unwrap();
}

/// A server has the files that were published, over the base that they were published for.
fn is_published(has: &Behind, published: &Publication) -> Result<(), TestCaseError> {
    prop_assert_eq!(has.weights.version.0, published.weights.version);
    prop_assert_eq!(json!(has.weights.source), published.source.clone());
    prop_assert_eq!(Some(has.files_id), published.files_id);
    prop_assert_eq!(has.base_id, published.base_id);
    Ok(())
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
