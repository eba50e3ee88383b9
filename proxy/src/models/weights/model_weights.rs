use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use fulgurite_backends::{BackendError, NewWeights, Sampler, WeightsSource};
use fulgurite_store::Store;
use fulgurite_types::{NamedWeights, NewPublication, Publication, ServingState, WeightsId, WeightsVersion};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{Notify, watch};

use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::weights::adapter_base::base_of;
use crate::models::weights::admission::{NewFiles, Place, of_version, refused};
use crate::models::weights::posted_files::other_files;
use crate::models::weights::posted_weights::{PostedName, PostedWeights, StartedWith, name_posted, readable_files};
use crate::models::weights::without_new_weights::WithoutNewWeights;

/// Why weights are not loaded whose files were overwritten.
const OTHER_FILES: &str = "its files are not those that were published";

/// The weights of one served model, which change once at a time.
#[derive(Clone)]
pub(crate) struct ModelWeights {
    shared: Arc<Inner>,
}

struct Inner {
    gate: Gate,
    /// The latest that were posted, and the result.
    posted: Mutex<Option<(PostedWeights, Posting)>>,
    /// Held while weights are loaded and published.
    turn: tokio::sync::Mutex<()>,
    status: watch::Sender<WeightsStatus>,
    /// Which weights the server was started with, where that is known.
    own: OnceLock<WeightsId>,
    /// Wakes whoever loads published weights.
    look: Notify,
}

type Posting = Shared<BoxFuture<'static, Result<(), Arc<ProxyError>>>>;

/// What a server has behind a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WeightsStatus {
    /// What was loaded since the server started.
    pub(crate) loaded: Option<LoadedWeights>,
    /// Which weights it has, where that is known.
    pub(crate) weights_id: Option<WeightsId>,
    /// How far it has got with the newest ones.
    pub(crate) state: ServingState,
    /// Why it has not got there.
    pub(crate) message: Option<String>,
}

/// Weights that a model's host has taken.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadedWeights {
    weights: NewWeights,
    /// Fingerprint of their files as it was published, where the publisher could read them.
    files_id: Option<WeightsId>,
}

impl LoadedWeights {
    /// Whether a publication is of these: a version may be published again with other files under the same path. What a
    /// publisher cannot see is taken to be as it was.
    fn are_published(&self, weights: &NewWeights, files_id: Option<WeightsId>) -> bool {
        self.weights == *weights && (files_id.is_none() || files_id == self.files_id)
    }
}

impl Default for WeightsStatus {
    fn default() -> Self {
        Self { loaded: None, weights_id: None, state: ServingState::Serving, message: None }
    }
}

/// A served model with the parts that its weights need.
#[derive(Clone)]
pub(crate) struct WeightsOf {
    pub(crate) model: String,
    pub(crate) sampler: Arc<dyn Sampler>,
    pub(crate) store: Store,
    pub(crate) without_new_weights: WithoutNewWeights,
}

/// What became of published weights.
#[derive(Debug)]
pub(crate) enum CaughtUp {
    /// Nothing is published.
    NothingPublished,
    /// They are behind the model.
    Serving,
    /// The store does not say what is published.
    Unread,
    /// The model's host may be there later.
    Away,
    /// They cannot be loaded as they are.
    Failed,
}

impl ModelWeights {
    pub(crate) fn new(gate: Gate) -> Self {
        let (posted, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        let (status, look) = (watch::Sender::new(WeightsStatus::default()), Notify::new());
        Self { shared: Arc::new(Inner { gate, posted, turn, status, own: OnceLock::new(), look }) }
    }

    pub(crate) fn status(&self) -> WeightsStatus {
        self.shared.status.borrow().clone()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<WeightsStatus> {
        self.shared.status.subscribe()
    }

    /// Completes when something happened here that published weights should be looked at for.
    pub(crate) async fn is_to_look(&self) {
        self.shared.look.notified().await;
    }

    /// The weights that the server was started with, whatever was put behind the model since; `None` where that is not known.
    pub(crate) fn own_weights(&self) -> Option<WeightsId> {
        self.shared.own.get().copied()
    }

    /// Remembers which weights the server was started with, which adapters are over.
    pub(crate) fn has_of_its_own(&self, weights_id: WeightsId) {
        // A server is started once.
        let _ = self.shared.own.set(weights_id);
    }

    /// Says that the model has the weights that the server was started with.
    pub(crate) fn started_with(&self, weights_id: WeightsId) {
        self.shared.status.send_modify(|status| status.weights_id = Some(weights_id));
    }

    /// Loads posted weights, and publishes them. It finishes even if its client leaves, so that no host is left in between.
    /// Requests for the same weights wait for the same load.
    pub(crate) async fn post(&self, of: &WeightsOf, posted: PostedWeights) -> Result<(), Arc<ProxyError>> {
        let posting = {
            let mut last = self.shared.posted.lock().unwrap_or_else(PoisonError::into_inner);
            match &*last {
                Some((same, posting)) if *same == posted && posting.peek().is_none() => posting.clone(),
                _ => {
                    let posting = self.begin(of.clone(), posted.clone());
                    last.insert((posted, posting)).1.clone()
                }
            }
        };
        posting.await
    }

    fn begin(&self, of: WeightsOf, posted: PostedWeights) -> Posting {
        let weights = self.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "a host is not to be left in the middle, and it is waited for below"
        )]
        let putting = tokio::spawn(async move { weights.put(&of, posted).await });
        let put = async {
            let put = putting.await.map_err(|error| BackendError::Internal { message: error.to_string() });
            put.map_err(ProxyError::from).and_then(|put| put).map_err(Arc::new)
        };
        let posting = put.boxed().shared();
        // The end of the load is visible even if no request waits for it.
        #[expect(clippy::disallowed_methods, reason = "it ends with the loading that it waits for")]
        tokio::spawn(posting.clone());
        posting
    }

    /// What may be replaced is looked at before anything is loaded, and once more, by the store, as the row is written.
    pub(super) async fn put(&self, of: &WeightsOf, posted: PostedWeights) -> Result<(), ProxyError> {
        let _turn = self.shared.turn.lock().await;
        let WeightsOf { model, sampler, store, .. } = of;
        let current = store.weights().publication(model).await?;
        let started_with = StartedWith {
            version: sampler.weights_version().filter(|_| current.is_none()),
            weights_id: self.shared.own.get().copied(),
        };
        let (replaces, found) = (posted.replaces, started_with.version);
        let place = Place { model, replaces, current: current.as_ref(), started_with: found };
        place.check(posted.version.map(|version| version.0))?;
        let named = name_posted(store, model, &posted, started_with).await;
        let PostedName { weights: named, is_new } = named.map_err(unusable)?;
        place.check(Some(named.version))?;
        let files_id = readable_files(&posted.source).await;
        let files = NewFiles {
            files_id,
            base_id: base_of(&posted.source, posted.base, started_with.weights_id)
                .map_err(|error| ProxyError::OtherBase { error })?,
            other: other_files(store, &named, &posted.source, posted.run_id.as_deref(), files_id).await?,
        };
        files.check(store, &named, &posted.source).await?;
        let weights = NewWeights { version: WeightsVersion(named.version), source: posted.source };
        let before = self.status();
        self.shared.status.send_modify(|status| status.is_loading());
        if let Err(error) = sampler.load_weights(&weights).await {
            self.posted_weights_failed(of, &error);
            if is_new && !may_be_loaded(&error) {
                store.weights().forget_unpublished_version(model, named.version).await?;
            }
            return Err(unusable(error.into()));
        }
        let source = json!(weights.source);
        let loaded = LoadedWeights { weights, files_id };
        self.has(loaded.clone(), &named);
        let publication = NewPublication {
            model: model.clone(),
            version: named.version,
            source,
            files_id,
            base_id: files.base_id,
            other_files: files.other,
            replaces,
            cause: posted.cause,
        };
        match store.weights().publish(publication).await {
            Ok(publication) => {
                // Of files that this machine cannot read, another server may have told.
                self.has(LoadedWeights { files_id: publication.files_id, ..loaded }, &named);
                let version = named.version;
                tracing::info!(model, version, weights = %named.weights_id, "new weights are behind a model");
                Ok(())
            }
            Err(error) => {
                self.put_back(of, before).await;
                Err(refused(model, named.version, error))
            }
        }
    }

    /// What was behind the model comes back, since others were published first. Those come then, if this server can load them.
    async fn put_back(&self, of: &WeightsOf, before: WeightsStatus) {
        if let Some(loaded) = &before.loaded {
            match of.sampler.load_weights(&loaded.weights).await {
                Ok(()) => {
                    self.shared.status.send_replace(before);
                }
                Err(error) => self.posted_weights_failed(of, &error),
            }
        }
        self.shared.look.notify_one();
    }

    /// Puts published weights behind the model, unless they are there.
    pub(crate) async fn catch_up(&self, of: &WeightsOf) -> CaughtUp {
        let _turn = self.shared.turn.lock().await;
        let WeightsOf { model, sampler, store, .. } = of;
        let Publication { weights: named, source, files_id, base_id, .. } =
            match store.weights().publication(model).await {
                Ok(Some(publication)) => publication,
                Ok(None) => return CaughtUp::NothingPublished,
                Err(error) => {
                    tracing::warn!(model, %error, "which weights are published cannot be read");
                    return CaughtUp::Unread;
                }
            };
        let version = named.version;
        let source = match WeightsSource::deserialize(&source) {
            Ok(source) => source,
            Err(error) => {
                self.is_behind(of, &named, &format!("where they are cannot be read: {error}"));
                return CaughtUp::Failed;
            }
        };
        if let Err(error) = base_of(&source, base_id, self.shared.own.get().copied()) {
            self.is_behind(of, &named, &error);
            return CaughtUp::Failed;
        }
        let weights = NewWeights { version: WeightsVersion(version), source };
        let loaded = self.shared.status.borrow().loaded.clone();
        if let Some(loaded) = loaded.filter(|loaded| loaded.are_published(&weights, files_id)) {
            self.has(loaded, &named);
            return CaughtUp::Serving;
        }
        // Files that this machine cannot read are left to the model's host.
        if let Some(published) = files_id
            && readable_files(&weights.source).await.is_some_and(|found| found != published)
        {
            self.is_behind(of, &named, &OTHER_FILES);
            return CaughtUp::Failed;
        }
        self.shared.status.send_modify(|status| status.is_loading());
        match sampler.load_weights(&weights).await {
            Ok(()) => {
                tracing::info!(model, version, weights = %named.weights_id, "published weights are behind a model");
                self.has(LoadedWeights { weights, files_id }, &named);
                CaughtUp::Serving
            }
            Err(error @ (BackendError::Unavailable { .. } | BackendError::Overloaded { .. })) => {
                self.shared.status.send_modify(|status| status.message = Some(of_version(&named, &error)));
                CaughtUp::Away
            }
            Err(error) => {
                self.is_behind(of, &named, &error);
                CaughtUp::Failed
            }
        }
    }

    /// The model's host, or the store, has been away for too long to wait for it any more.
    pub(crate) fn gives_up_waiting(&self, of: &WeightsOf) {
        self.shared.status.send_if_modified(|status| {
            let state = state_behind(of.without_new_weights);
            status.message.get_or_insert_with(|| "the store does not say which weights are published".to_owned());
            std::mem::replace(&mut status.state, state) != state
        });
        self.refuse_if_behind();
    }

    fn has(&self, loaded: LoadedWeights, named: &NamedWeights) {
        let status = WeightsStatus {
            loaded: Some(loaded),
            weights_id: Some(named.weights_id),
            state: ServingState::Serving,
            message: None,
        };
        self.shared.status.send_if_modified(|known| {
            let is_new = *known != status;
            *known = status;
            is_new
        });
        self.refuse_if_behind();
    }

    fn is_behind(&self, of: &WeightsOf, named: &NamedWeights, error: &dyn std::fmt::Display) {
        let message = of_version(named, error);
        let state = state_behind(of.without_new_weights);
        let is_new = self.shared.status.send_if_modified(|status| {
            let is_new = status.message.as_ref() != Some(&message) || status.state != state;
            status.message = Some(message.clone());
            status.state = state;
            is_new
        });
        if is_new {
            let model = &of.model;
            tracing::error!(model, message, "published weights cannot be loaded; they are tried again");
        }
        self.refuse_if_behind();
    }

    /// Posted weights are not behind the model, and those before them may not be any more.
    fn posted_weights_failed(&self, of: &WeightsOf, error: &BackendError) {
        let model = &of.model;
        tracing::warn!(model, %error, "posted weights cannot be loaded");
        let has_now = of.sampler.weights_version();
        self.shared.status.send_modify(|status| {
            let is_intact = status.loaded.as_ref().is_none_or(|loaded| has_now == Some(loaded.weights.version));
            status.loaded = status.loaded.take().filter(|_| is_intact);
            status.is_not_loading();
        });
        self.shared.look.notify_one();
    }

    fn refuse_if_behind(&self) {
        let status = self.shared.status.borrow();
        let reason = status.message.clone().filter(|_| status.state == ServingState::Refusing);
        drop(status);
        self.shared.gate.refuse(reason);
    }
}

impl WeightsStatus {
    /// What is behind stays so until the newest weights are there.
    fn is_loading(&mut self) {
        if self.state == ServingState::Serving {
            self.state = ServingState::Loading;
        }
    }

    fn is_not_loading(&mut self) {
        if self.state == ServingState::Loading {
            self.state = ServingState::Serving;
        }
    }
}

fn state_behind(without_new_weights: WithoutNewWeights) -> ServingState {
    match without_new_weights {
        WithoutNewWeights::Serve => ServingState::Behind,
        WithoutNewWeights::Refuse => ServingState::Refusing,
    }
}

/// Whether a host may have weights whose loading failed.
fn may_be_loaded(error: &BackendError) -> bool {
    match error {
        BackendError::Files { .. }
        | BackendError::Damaged(_)
        | BackendError::InvalidRequest { .. }
        | BackendError::Unread { .. }
        | BackendError::Superseded { .. } => false,
        BackendError::PromptTooLong { .. }
        | BackendError::Overloaded { .. }
        | BackendError::Unavailable { .. }
        | BackendError::Configuration { .. }
        | BackendError::KeyRefused { .. }
        | BackendError::BrokenAnswer { .. }
        | BackendError::Internal { .. } => true,
    }
}

/// Why posted weights are not behind a model. Unlike a failure of the server, the same would come of them again.
fn unusable(error: ProxyError) -> ProxyError {
    match error {
        ProxyError::Backend(error @ (BackendError::Files { .. } | BackendError::Damaged(_))) => {
            ProxyError::WeightsUnread { error }
        }
        ProxyError::Backend(error @ BackendError::Configuration { .. }) => ProxyError::WeightsUnusable { error },
        error => error,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "the tests wait for their tasks")]

    use fulgurite_types::{NewNamedWeights, NewRun, Replaces};

    use super::*;
    use crate::models::weights::testing::{Hosted, posted};

    #[tokio::test]
    async fn weights_that_are_asked_for_again_while_they_are_loaded_are_loaded_once() {
        let it = Hosted::new([]).await;
        let first = tokio::spawn(it.post(posted(3)));
        it.host.requested(1).await;
        // The first request has been cancelled.
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        let (again, more) = (tokio::spawn(it.post(posted(3))), tokio::spawn(it.post(posted(3))));
        tokio::task::yield_now().await;
        it.host.permits.add_permits(3);
        again.await.unwrap().unwrap();
        more.await.unwrap().unwrap();
        assert_eq!((it.host.requested(1).await, it.published().await), (vec![3], Some(3)));
        it.post(posted(3)).await.unwrap();
        it.post(posted(4)).await.unwrap();
        assert_eq!((it.host.requested(1).await, it.published().await), (vec![3, 3, 4], Some(4)));
    }

    #[tokio::test]
    async fn weights_that_may_not_replace_what_is_there_are_refused_before_they_are_loaded() {
        let it = Hosted::new([]).await;
        it.host.permits.add_permits(9);
        it.post(posted(3)).await.unwrap();
        for (version, replaces) in
            [(Some(2), Replaces::Older), (Some(5), Replaces::Version(2)), (None, Replaces::Version(2))]
        {
            let refused = PostedWeights { version: version.map(WeightsVersion), replaces, ..posted(5) };
            let error = it.post(refused).await.unwrap_err().to_string();
            assert!(error.contains("has version 3, and") && error.contains("`\"replaces\": 3`"), "{error}");
        }
        assert_eq!(it.host.requested(1).await, [3]);
        it.post(PostedWeights { replaces: Replaces::Version(3), ..posted(5) }).await.unwrap();
        it.post(PostedWeights { replaces: Replaces::Anything, ..posted(3) }).await.unwrap();
        assert_eq!((it.host.requested(1).await, it.published().await), (vec![3, 5, 3], Some(3)));
    }

    #[tokio::test]
    async fn a_version_of_weights_that_cannot_be_loaded_is_free_again() {
        let damaged = || BackendError::InvalidRequest { message: "its shape is another".into() };
        let it = Hosted::new([damaged()]).await;
        it.host.permits.add_permits(2);
        it.post(posted(3)).await.unwrap_err();
        assert_eq!(it.of.store.weights().greatest_version("m").await.unwrap(), None);
        let others = PostedWeights { source: WeightsSource::Adapter("/others".into()), ..posted(3) };
        it.post(others).await.unwrap();
        assert_eq!(it.published().await, Some(3));
    }

    #[tokio::test]
    async fn a_model_whose_newest_weights_cannot_be_loaded_says_so_and_takes_no_calls_if_told() {
        for (without_new_weights, state) in
            [(WithoutNewWeights::Serve, ServingState::Behind), (WithoutNewWeights::Refuse, ServingState::Refusing)]
        {
            let missing = || BackendError::Files { path: "/w/3".into(), message: "no such file".into() };
            let it = Hosted::new([missing(), missing()]).await;
            it.host.permits.add_permits(9);
            let of = WeightsOf { without_new_weights, ..it.of.clone() };
            assert!(matches!(it.weights.catch_up(&of).await, CaughtUp::NothingPublished));
            it.publish_elsewhere(3).await;
            for _ in 0..2 {
                assert!(matches!(it.weights.catch_up(&of).await, CaughtUp::Failed));
                let status = it.weights.status();
                let message = "version 3: /w/3: no such file".to_owned();
                assert_eq!((status.state, status.message), (state, Some(message.clone())));
                let refusal = it.gate.refusal();
                assert_eq!(refusal, (state == ServingState::Refusing).then_some(message));
            }
            assert!(matches!(it.weights.catch_up(&of).await, CaughtUp::Serving));
            assert!(matches!(it.weights.catch_up(&of).await, CaughtUp::Serving));
            let status = it.weights.status();
            assert_eq!((status.state, status.message, it.gate.refusal()), (ServingState::Serving, None, None));
            assert_eq!(it.host.requested(1).await, [3, 3, 3], "and not again");
        }
    }

    #[tokio::test]
    async fn files_that_were_overwritten_since_are_not_loaded_as_those_that_were_published() {
        let it = Hosted::new([]).await;
        it.host.permits.add_permits(9);
        let directory = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(directory.path().join("model.safetensors"), text).unwrap();
        write("published");
        let source = WeightsSource::Model(directory.path().to_owned());
        it.post(PostedWeights { source, ..posted(3) }).await.unwrap();
        write("overwritten");
        let late = ModelWeights::new(Gate::default());
        assert!(matches!(late.catch_up(&it.of).await, CaughtUp::Failed));
        let message = Some(format!("version 3: {OTHER_FILES}"));
        assert_eq!((late.status().state, late.status().message), (ServingState::Behind, message));
        assert_eq!(it.host.requested(1).await, [3]);
        write("published");
        assert!(matches!(late.catch_up(&it.of).await, CaughtUp::Serving));
        assert_eq!(it.host.requested(2).await, [3, 3]);
    }

    #[tokio::test]
    async fn a_version_that_is_published_again_with_other_files_is_loaded_again() {
        let it = Hosted::new([]).await;
        it.host.permits.add_permits(9);
        // The version is a run's, which makes the same update again after it was killed.
        let run = tempfile::tempdir().unwrap();
        let directory = run.path().join("published/000003");
        std::fs::create_dir_all(&directory).unwrap();
        let write = |text: &str| std::fs::write(directory.join("model.safetensors"), text).unwrap();
        let weights_id = WeightsId::of_digest([5; 32]);
        let of_run = NewNamedWeights { run_id: Some("r".into()), ..NewNamedWeights::of_no_run("m", weights_id, 3) };
        it.of.store.weights().name(of_run).await.unwrap();
        let config = json!({ "run_directory": run.path() });
        it.of.store.runs().create(NewRun { run_id: "r".into(), name: "r".into(), config, seed: 0 }).await.unwrap();
        let source = WeightsSource::Model(directory.clone());
        let posted = || PostedWeights { source: source.clone(), run_id: Some("r".into()), ..posted(3) };
        write("first");
        it.post(posted()).await.unwrap();
        let other = it.another_server();
        other.host.permits.add_permits(9);
        assert!(matches!(other.weights.catch_up(&other.of).await, CaughtUp::Serving));
        write("second");
        it.post(posted()).await.unwrap();
        for _ in 0..2 {
            assert!(matches!(other.weights.catch_up(&other.of).await, CaughtUp::Serving));
        }
        assert_eq!(other.host.requested(1).await, [3, 3], "the new files, and once");
        // The same files again are nothing new.
        it.post(posted()).await.unwrap();
        assert!(matches!(other.weights.catch_up(&other.of).await, CaughtUp::Serving));
        assert_eq!(other.host.requested(1).await, [3, 3]);
    }

    #[tokio::test]
    async fn what_others_publish_meanwhile_comes_back_once_the_race_is_lost() {
        let it = Hosted::new([]).await;
        let lost = tokio::spawn(it.post(posted(3)));
        it.host.requested(1).await;
        it.publish_elsewhere(4).await;
        it.host.permits.add_permits(9);
        let error = lost.await.unwrap().unwrap_err().to_string();
        assert!(error.contains("has version 4, and version 3 may not"), "{error}");
        it.weights.is_to_look().await;
        assert!(matches!(it.weights.catch_up(&it.of).await, CaughtUp::Serving));
        assert_eq!((it.host.requested(1).await, it.published().await), (vec![3, 4], Some(4)));
    }
}
