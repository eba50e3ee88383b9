use std::path::{Component, Path, PathBuf};

use fulgurite_backends::WeightsSource;
use fulgurite_store::Store;
use fulgurite_types::{NamedWeights, OtherFiles, WeightsId};

use crate::error::ProxyError;

/// Whether files that are posted for a version that a run has named, for that run or for none, may be others than those that it was published with.
///
/// A run that goes on makes an update again and writes it to the same place. A service keeps that under another name. Where
/// the files cannot be read, here or by whoever published them before, those in the run's directory are believed.
pub(crate) async fn other_files(
    store: &Store,
    named: &NamedWeights,
    source: &WeightsSource,
    posted_for: Option<&str>,
    files_id: Option<WeightsId>,
) -> Result<OtherFiles, ProxyError> {
    let Some(run_id) =
        named.run_id.as_deref().filter(|run_id| posted_for.is_none_or(|posted_for| posted_for == *run_id))
    else {
        return Ok(OtherFiles::Refuse);
    };
    // With nothing published before, the store holds what is published meanwhile against these.
    let known = store.weights().published_files(&named.model, named.version).await?;
    let is_accepted = match source {
        WeightsSource::Kept(_) => known.is_some_and(|known| known.source.get("kept").is_some()),
        WeightsSource::Model(directory) | WeightsSource::Adapter(directory) => {
            let is_unread = known.is_some_and(|known| files_id.is_none() || known.files_id.is_none());
            let of_run = run_directory(store, run_id).await?;
            of_run.is_some_and(|of_run| {
                *directory == published_in(&of_run, named.version) || is_unread && is_in(directory, &of_run)
            })
        }
    };
    Ok(if is_accepted { OtherFiles::Accept } else { OtherFiles::Refuse })
}

/// Whether weights are where the trainer of a run publishes those of a version. Trainers of earlier releases name no run.
pub(crate) async fn is_published_by(
    store: &Store,
    run_id: &str,
    version: u64,
    source: &WeightsSource,
) -> Result<bool, ProxyError> {
    let (WeightsSource::Model(directory) | WeightsSource::Adapter(directory)) = source else { return Ok(false) };
    let of_run = run_directory(store, run_id).await?;
    Ok(of_run.is_some_and(|of_run| *directory == published_in(&of_run, version)))
}

async fn run_directory(store: &Store, run_id: &str) -> Result<Option<PathBuf>, ProxyError> {
    let run = store.runs().get(run_id).await?;
    Ok(run.and_then(|run| run.config["run_directory"].as_str().map(PathBuf::from)))
}

fn is_in(path: &Path, directory: &Path) -> bool {
    path.starts_with(directory) && !path.components().any(|part| part == Component::ParentDir)
}

fn published_in(run_directory: &Path, version: u64) -> PathBuf {
    run_directory.join("published").join(format!("{version:06}"))
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewNamedWeights, NewRun};
    use serde_json::json;

    use super::*;
    use crate::models::weights::posted_weights::PostedWeights;
    use crate::models::weights::testing::{Hosted, posted};

    #[tokio::test]
    async fn other_files_of_a_runs_version_are_refused_whoever_names_the_run() {
        let it = Hosted::new([]).await;
        it.host.permits.add_permits(9);
        let home = tempfile::tempdir().unwrap();
        let made = |name: &str, text: &str| {
            let directory = home.path().join(name);
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("model.safetensors"), text).unwrap();
            WeightsSource::Model(directory)
        };
        let config = json!({ "run_directory": home.path().join("run") });
        it.of.store.runs().create(NewRun { run_id: "r".into(), name: "r".into(), config, seed: 0 }).await.unwrap();
        let weights_id = WeightsId::of_digest([5; 32]);
        let of_run = NewNamedWeights { run_id: Some("r".into()), ..NewNamedWeights::of_no_run("m", weights_id, 3) };
        it.of.store.weights().name(of_run).await.unwrap();
        let posted = |source| PostedWeights { source, run_id: Some("r".into()), ..posted(3) };
        it.post(posted(made("run/published/000003", "update"))).await.unwrap();
        for others in [
            made("other", "others"),
            // The run's directory, and not where it publishes.
            made("run/rolled-back/000003", "others"),
            WeightsSource::Model(home.path().join("run/../nowhere")),
            WeightsSource::Model("/nowhere".into()),
            WeightsSource::Kept("tinker://r/sampler_weights/3".into()),
        ] {
            let refused = it.post(posted(others.clone())).await.unwrap_err();
            assert!(matches!(*refused, ProxyError::VersionOfOtherFiles { version: 3, .. }), "{refused} {others:?}");
        }
        assert_eq!(it.host.requested(1).await, [3], "they are refused before they are loaded");
        // A checkpoint's copy, and the run itself that was killed and makes the update again.
        it.post(posted(made("run/rolled-back/000003", "update"))).await.unwrap();
        it.post(posted(made("run/published/000003", "update again"))).await.unwrap();
        it.post(posted(made("run/rolled-back/000003", "update"))).await.unwrap_err();
        // Where nobody can read them, the run's directory is believed.
        it.post(posted(WeightsSource::Model(home.path().join("run/rolled-back/unread")))).await.unwrap();
        assert_eq!(it.published().await, Some(3));
    }
}
