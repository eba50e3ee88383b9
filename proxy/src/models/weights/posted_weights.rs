use std::path::{Path, PathBuf};

use fulgurite_backends::{BackendError, WeightsSource, weights_fingerprint};
use fulgurite_store::Store;
use fulgurite_types::{NamedWeights, NewNamedWeights, PublicationCause, Replaces, WeightsId, WeightsVersion};
use sha2::{Digest, Sha256};

use crate::error::ProxyError;
use crate::models::weights::adapter_base::{base_of, over};
use crate::models::weights::posted_files::is_published_by;

/// Weights that somebody posted for a model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PostedWeights {
    /// Where they are.
    pub(crate) source: WeightsSource,
    /// The whole weights that an adapter is over, if they are named; else it is the model that the server was started with.
    pub(crate) base: Option<WeightsId>,
    /// The run that made them, if whoever posts them names one.
    pub(crate) run_id: Option<String>,
    /// The version that they are to have; without one they get the next that is free.
    pub(crate) version: Option<WeightsVersion>,
    /// What they may take the place of.
    pub(crate) replaces: Replaces,
    /// Why they are posted.
    pub(crate) cause: PublicationCause,
}

/// The version of posted weights.
#[derive(Debug)]
pub(crate) struct PostedName {
    pub(crate) weights: NamedWeights,
    /// Whether it was given to them just now.
    pub(crate) is_new: bool,
}

/// The model that a server was started with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StartedWith {
    /// The version behind it, as long as nothing is published.
    pub(crate) version: Option<WeightsVersion>,
    /// Which weights it has, where that is known.
    pub(crate) weights_id: Option<WeightsId>,
}

/// Gives posted weights their version.
///
/// A run names its weights before it posts them, and whoever posts them must name that run. Other weights are known by their
/// files, adapters together with what they are over: the same may have several versions, but a version stands for the same
/// weights for ever.
pub(crate) async fn name_posted(
    store: &Store,
    model: &str,
    posted: &PostedWeights,
    started_with: StartedWith,
) -> Result<PostedName, ProxyError> {
    let base = base_of(&posted.source, posted.base, started_with.weights_id)
        .map_err(|error| ProxyError::OtherBase { error })?;
    let Some(WeightsVersion(version)) = posted.version else {
        let greatest =
            store.weights().greatest_version(model).await?.max(started_with.version.map(|version| version.0));
        let preferred = greatest.map_or(1, |greatest| greatest.saturating_add(1));
        let id = over(identity(&posted.source, preferred).await?, base);
        let weights = store.weights().name(NewNamedWeights::of_no_run(model, id, preferred)).await?;
        return Ok(PostedName { is_new: weights.version == preferred, weights });
    };
    let known = store.weights().of_version(model, version).await?;
    if let Some(weights) = &known
        && is_stated_version(store, weights, posted).await?
    {
        return Ok(PostedName { weights: weights.clone(), is_new: false });
    }
    let files = identity(&posted.source, version).await?;
    let ids = [over(files, base), once_more(over(files, base), version)];
    if let Some(weights) = known {
        // Releases before bases were named knew an adapter by its files alone, over the model of the server.
        let is_own_base = posted.base.is_none() || posted.base == started_with.weights_id;
        let older_ids = [files, once_more(files, version)];
        if ids.contains(&weights.weights_id) || is_own_base && older_ids.contains(&weights.weights_id) {
            return Ok(PostedName { weights, is_new: false });
        }
        let model = model.to_owned();
        return Err(match weights.run_id {
            Some(run_id) => ProxyError::VersionOfRun { model, version, run_id, step: weights.step },
            None => ProxyError::VersionOfOthers { model, version },
        });
    }
    for id in ids {
        let weights = store.weights().name(NewNamedWeights::of_no_run(model, id, version)).await?;
        if weights.version == version {
            return Ok(PostedName { weights, is_new: true });
        }
    }
    // Another server has just named others.
    Err(ProxyError::VersionOfOthers { model: model.to_owned(), version })
}

/// Whether posted weights are those of a version although their files cannot show it: they are posted for the run that named
/// the version, or an earlier release recorded it, without a time.
async fn is_stated_version(store: &Store, named: &NamedWeights, posted: &PostedWeights) -> Result<bool, ProxyError> {
    match (&named.run_id, &posted.run_id) {
        (Some(run_id), Some(posted)) => Ok(run_id == posted),
        (Some(run_id), None) => is_published_by(store, run_id, named.version, &posted.source).await,
        (None, _) => Ok(named.time <= 0.0),
    }
}

/// The identity of weights by where they are. Files that a remote host alone can see are known by their path, and what a
/// host keeps by its name, each together with the version: what is there later may be other weights.
async fn identity(source: &WeightsSource, version: u64) -> Result<WeightsId, BackendError> {
    match source {
        WeightsSource::Model(directory) | WeightsSource::Adapter(directory) if is_visible(directory).await => {
            fingerprint(directory.clone()).await
        }
        WeightsSource::Model(path) => Ok(unseen("a model elsewhere", &path.to_string_lossy(), version)),
        WeightsSource::Adapter(path) => Ok(unseen("an adapter elsewhere", &path.to_string_lossy(), version)),
        WeightsSource::Kept(name) => Ok(unseen("kept by a host", name, version)),
    }
}

/// Fingerprint of the files of weights, where this machine can read them.
pub(crate) async fn readable_files(source: &WeightsSource) -> Option<WeightsId> {
    match source {
        WeightsSource::Model(directory) | WeightsSource::Adapter(directory) => {
            fingerprint(directory.clone()).await.ok()
        }
        WeightsSource::Kept(_) => None,
    }
}

async fn is_visible(directory: &Path) -> bool {
    tokio::fs::try_exists(directory).await.unwrap_or(true)
}

async fn fingerprint(directory: PathBuf) -> Result<WeightsId, BackendError> {
    let panicked = |error: tokio::task::JoinError| BackendError::Internal { message: error.to_string() };
    tokio::task::spawn_blocking(move || weights_fingerprint(&directory)).await.map_err(panicked)?
}

fn unseen(kind: &str, name: &str, version: u64) -> WeightsId {
    let mut state = Sha256::new_with_prefix("fulgurite weights that are not seen\n");
    for part in [kind, name] {
        state.update((part.len() as u64).to_le_bytes());
        state.update(part);
    }
    state.update(version.to_le_bytes());
    WeightsId::of_digest(state.finalize().into())
}

/// The identity of weights that have another version already, under this one.
fn once_more(id: WeightsId, version: u64) -> WeightsId {
    let mut state = Sha256::new_with_prefix("fulgurite weights under another version\n");
    state.update(id.as_bytes());
    state.update(version.to_le_bytes());
    WeightsId::of_digest(state.finalize().into())
}

#[cfg(test)]
mod tests {
    use fulgurite_store::StoreOptions;
    use fulgurite_types::NewRun;
    use tempfile::TempDir;

    use super::*;

    struct Setup {
        store: Store,
        home: TempDir,
    }

    impl Setup {
        async fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            for name in ["a", "b"] {
                std::fs::create_dir(home.path().join(name)).unwrap();
                std::fs::write(home.path().join(name).join("model.safetensors"), name).unwrap();
            }
            let url = format!("sqlite://{}", home.path().join("test.db").display());
            Self { store: Store::open(&url, StoreOptions::default()).await.unwrap(), home }
        }

        /// The version that the weights in a directory get, and whether it is new.
        async fn named(&self, directory: &str, version: Option<u64>) -> Result<(u64, bool), String> {
            self.named_for(None, directory, version).await
        }

        /// The same for weights that are posted as a run's.
        async fn named_for(
            &self,
            run_id: Option<&str>,
            directory: &str,
            version: Option<u64>,
        ) -> Result<(u64, bool), String> {
            let posted = PostedWeights {
                source: WeightsSource::Model(self.home.path().join(directory)),
                base: None,
                run_id: run_id.map(str::to_owned),
                version: version.map(WeightsVersion),
                replaces: Replaces::Older,
                cause: PublicationCause::Update,
            };
            let started_with = StartedWith { version: Some(WeightsVersion(2)), weights_id: None };
            let named = name_posted(&self.store, "m", &posted, started_with).await;
            named.map(|named| (named.weights.version, named.is_new)).map_err(|error| error.to_string())
        }
    }

    #[tokio::test]
    async fn a_version_stands_for_the_same_files_for_ever() {
        let setup = Setup::new().await;
        for (directory, version, expected) in [
            ("a", None, Some((3, true))),
            ("a", None, Some((3, false))),
            ("b", Some(3), None),
            ("b", Some(7), Some((7, true))),
            // The same files under a second number, which stays theirs.
            ("a", Some(9), Some((9, true))),
            ("a", Some(9), Some((9, false))),
            ("b", Some(9), None),
            ("b", None, Some((7, false))),
            // What this server cannot see.
            ("elsewhere", Some(10), Some((10, true))),
            ("elsewhere", Some(10), Some((10, false))),
            ("elsewhere", None, Some((11, true))),
        ] {
            let named = setup.named(directory, version).await;
            match expected {
                Some(expected) => assert_eq!(named, Ok(expected), "{directory} {version:?}"),
                None => assert!(named.unwrap_err().contains("names other weights"), "{directory} {version:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_version_of_a_run_takes_no_files_but_those_that_are_posted_as_the_runs() {
        let setup = Setup::new().await;
        let id = WeightsId::of_digest([7; 32]);
        let of_run =
            NewNamedWeights { run_id: Some("r".into()), step: Some(5), ..NewNamedWeights::of_no_run("m", id, 5) };
        setup.store.weights().name(of_run).await.unwrap();
        assert_eq!(setup.named_for(Some("r"), "a", Some(5)).await, Ok((5, false)));
        assert_eq!(setup.named_for(Some("r"), "b", Some(5)).await, Ok((5, false)));
        for run_id in [None, Some("other")] {
            for directory in ["a", "elsewhere"] {
                let refused = setup.named_for(run_id, directory, Some(5)).await.unwrap_err();
                assert!(
                    refused.contains("version 5 of the model `m` names weights of run r after 5 updates"),
                    "{refused}"
                );
            }
        }
        assert_eq!(setup.named("a", None).await, Ok((6, true)));
    }

    #[tokio::test]
    async fn a_trainer_that_names_no_run_is_known_by_where_it_publishes() {
        let setup = Setup::new().await;
        let id = WeightsId::of_digest([7; 32]);
        let of_run =
            NewNamedWeights { run_id: Some("r".into()), step: Some(5), ..NewNamedWeights::of_no_run("m", id, 5) };
        setup.store.weights().name(of_run).await.unwrap();
        let config = serde_json::json!({ "run_directory": setup.home.path() });
        setup.store.runs().create(NewRun { run_id: "r".into(), name: "r".into(), config, seed: 0 }).await.unwrap();
        for directory in ["published/000005", "published/000006", "000005"] {
            std::fs::create_dir_all(setup.home.path().join(directory)).unwrap();
            std::fs::write(setup.home.path().join(directory).join("model.safetensors"), directory).unwrap();
        }
        assert_eq!(setup.named("published/000005", Some(5)).await, Ok((5, false)));
        for directory in ["published/000006", "000005"] {
            let refused = setup.named(directory, Some(5)).await.unwrap_err();
            assert!(refused.contains("a trainer of an earlier release names no run: update it"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_version_that_a_run_named_by_its_files_takes_the_same_files_from_everybody() {
        let setup = Setup::new().await;
        let id = fingerprint(setup.home.path().join("a")).await.unwrap();
        let of_run =
            NewNamedWeights { run_id: Some("r".into()), step: Some(5), ..NewNamedWeights::of_no_run("m", id, 5) };
        setup.store.weights().name(of_run).await.unwrap();
        assert_eq!(setup.named("a", Some(5)).await, Ok((5, false)));
        assert!(setup.named("b", Some(5)).await.is_err());
    }
}
