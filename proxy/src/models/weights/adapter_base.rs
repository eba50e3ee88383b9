use fulgurite_backends::WeightsSource;
use fulgurite_types::WeightsId;
use sha2::{Digest, Sha256};

use crate::error::other_base::OtherBase;

/// The base of weights: that which is named for an adapter, or else the model that the server was started with, `own`. Whole
/// weights have none. Where the server does not know what its host was started with, that is not held against an adapter.
pub(crate) fn base_of(
    source: &WeightsSource,
    named: Option<WeightsId>,
    own: Option<WeightsId>,
) -> Result<Option<WeightsId>, OtherBase> {
    match (source, named, own) {
        (WeightsSource::Model(_) | WeightsSource::Kept(_), _, _) => Ok(None),
        (WeightsSource::Adapter(_), Some(wanted), Some(has)) if wanted != has => Err(OtherBase { wanted, has }),
        (WeightsSource::Adapter(_), named, own) => Ok(named.or(own)),
    }
}

/// The identity of an adapter over a base, of that of its files.
pub(crate) fn over(files: WeightsId, base: Option<WeightsId>) -> WeightsId {
    let Some(base) = base else { return files };
    let mut state = Sha256::new_with_prefix("fulgurite weights, of an adapter over a base\n");
    state.update(files.as_bytes());
    state.update(base.as_bytes());
    WeightsId::of_digest(state.finalize().into())
}

#[cfg(test)]
mod tests {
    use fulgurite_types::{NewNamedWeights, NewRun, Replaces, ServingState};

    use super::*;
    use crate::error::ProxyError;
    use crate::models::weights::model_weights::CaughtUp;
    use crate::models::weights::posted_weights::PostedWeights;
    use crate::models::weights::testing::{Hosted, posted};

    #[test]
    fn an_adapter_is_over_the_named_base_or_else_over_the_servers_model() {
        let id = |digest| Some(WeightsId::of_digest([digest; 32]));
        let adapter = WeightsSource::Adapter("/a".into());
        for (named, own, expected) in [
            (None, None, Some(None)),
            (None, id(1), Some(id(1))),
            (id(1), None, Some(id(1))),
            (id(1), id(1), Some(id(1))),
            (id(1), id(2), None),
        ] {
            assert_eq!(base_of(&adapter, named, own).ok(), expected, "{named:?} {own:?}");
            assert_eq!(base_of(&WeightsSource::Model("/m".into()), named, own), Ok(None));
        }
        let files = WeightsId::of_digest([7; 32]);
        assert_eq!(over(files, None), files);
        assert!(over(files, id(1)) != files && over(files, id(1)) != over(files, id(2)));
    }

    #[tokio::test]
    async fn an_adapter_over_another_base_is_refused_to_the_poster_and_not_loaded_by_who_follows() {
        let (it, id) = (Hosted::new([]).await, |digest: u8| WeightsId::of_digest([digest; 32]));
        let other = it.another_server();
        for (server, own) in [(&it, 1), (&other, 2)] {
            server.host.permits.add_permits(9);
            server.weights.has_of_its_own(id(own));
        }
        let refused = it.post(PostedWeights { base: Some(id(2)), ..posted(3) }).await.unwrap_err();
        assert!(matches!(*refused, ProxyError::OtherBase { .. }), "{refused}");
        let text = refused.to_string();
        assert!(text.contains(&id(2).to_string()) && text.contains(&id(1).to_string()), "{text}");
        assert_eq!(it.published().await, None);
        // Without a base, it is over what the server was started with.
        it.post(posted(3)).await.unwrap();
        assert_eq!(it.of.store.weights().publication("m").await.unwrap().unwrap().base_id, Some(id(1)));
        assert!(matches!(other.weights.catch_up(&other.of).await, CaughtUp::Failed));
        let status = other.weights.status();
        assert_eq!(status.state, ServingState::Behind);
        assert!(status.message.is_some_and(|message| message.contains("this server's model was started with")));
        // The same files over another base are other weights.
        let same_files = other.post(PostedWeights { replaces: Replaces::Anything, ..posted(3) }).await.unwrap_err();
        assert!(matches!(*same_files, ProxyError::VersionOfOthers { .. }), "{same_files}");
        // Neither where the run's own directory may have other files by now: nothing is loaded that is refused.
        let run_directory = other.directory().join("run");
        let config = serde_json::json!({ "run_directory": run_directory });
        let new_run = NewRun { run_id: "r".into(), name: "r".into(), config, seed: 0 };
        it.of.store.runs().create(new_run).await.unwrap();
        let weights_id = WeightsId::of_digest([5; 32]);
        let of_run = NewNamedWeights { run_id: Some("r".into()), ..NewNamedWeights::of_no_run("m", weights_id, 5) };
        it.of.store.weights().name(of_run).await.unwrap();
        let source = WeightsSource::Adapter(run_directory.join("published/000005"));
        let of_run = PostedWeights { source, run_id: Some("r".into()), replaces: Replaces::Anything, ..posted(5) };
        it.post(of_run.clone()).await.unwrap();
        let before = other.weights.status();
        let over_another = other.post(of_run).await.unwrap_err();
        assert!(matches!(*over_another, ProxyError::VersionOfOtherFiles { version: 5, .. }), "{over_another}");
        let status = other.weights.status();
        assert_eq!((status.loaded, status.weights_id), (before.loaded, before.weights_id));
        // Whole weights have no base.
        let source = WeightsSource::Model("/nowhere/6".into());
        it.post(PostedWeights { source, ..posted(6) }).await.unwrap();
        assert!(matches!(other.weights.catch_up(&other.of).await, CaughtUp::Serving));
        assert_eq!(other.host.requested(1).await, [6]);
    }
}
