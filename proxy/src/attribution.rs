use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_backends::derive_seed;
use fulgurite_store::StoreError;
use fulgurite_store::model::{AttemptStatus, AttemptUpdate, NewRollout};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::Proxy;
use crate::error::ProxyError;

/// Whose call it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribution {
    pub(crate) rollout_id: String,
    pub(crate) attempt_id: String,
    /// Seed of the rollout; calls derive theirs from it and from their place.
    pub(crate) rollout_seed: u64,
}

/// Ids that a path names.
#[derive(Clone, Debug)]
pub(crate) struct PathIds {
    pub(crate) rollout_id: String,
    pub(crate) attempt_id: String,
}

/// The path of a model call, which may say nothing of whose it is.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct CallPath {
    rollout_id: Option<String>,
    attempt_id: Option<String>,
}

impl CallPath {
    /// Both ids or none: no route has one alone.
    pub(crate) fn ids(self) -> Option<PathIds> {
        let (rollout_id, attempt_id) = self.rollout_id.zip(self.attempt_id)?;
        Some(PathIds { rollout_id, attempt_id })
    }
}

/// Checks that the rollout and attempt of a path exist and that the attempt still runs.
pub(crate) async fn resolve(proxy: &Proxy, ids: &PathIds) -> Result<Attribution, ProxyError> {
    let PathIds { rollout_id, attempt_id } = ids;
    let store = &proxy.shared.store;
    let Some((rollout, latest)) = store.get_rollout(rollout_id).await? else {
        return Err(ProxyError::UnknownTarget { kind: "rollout", id: rollout_id.clone() });
    };
    // Nearly every call is of the latest attempt, which has been read already.
    let attempt = match latest.filter(|latest| latest.attempt_id == *attempt_id) {
        Some(latest) => latest,
        None => match store.get_attempt(rollout_id, attempt_id).await? {
            Some(earlier) => earlier,
            None => return Err(ProxyError::UnknownTarget { kind: "attempt", id: attempt_id.clone() }),
        },
    };
    if attempt.status.is_ended() {
        let status = attempt.status.as_str().to_owned();
        return Err(ProxyError::AttemptEnded { attempt_id: attempt_id.clone(), status });
    }
    let given = rollout.metadata.as_ref().and_then(|metadata| metadata.get("seed")).and_then(|seed| seed.as_u64());
    Ok(Attribution {
        rollout_id: rollout_id.clone(),
        attempt_id: attempt_id.clone(),
        rollout_seed: given.unwrap_or_else(|| derive_seed(proxy.shared.options.seed, &[rollout_id])),
    })
}

/// To whom a request's generations belong: to an attempt that is known, or to a session of their own, which is opened
/// once there is something to record.
pub(crate) enum Owner {
    Known(Attribution),
    Session {
        ids: OnceCell<SessionIds>,
        /// Calls that are not recorded yet.
        unfinished: AtomicUsize,
    },
}

/// Rollout and attempt of a session.
pub(crate) struct SessionIds {
    pub(crate) rollout_id: String,
    pub(crate) attempt_id: String,
}

impl Owner {
    /// The owner of so many calls, which may have a session already.
    pub(crate) fn new(attribution: Option<Attribution>, session: Option<SessionIds>, calls: usize) -> Self {
        match attribution {
            Some(attribution) => Owner::Known(attribution),
            None => {
                let ids = session.map(OnceCell::from).unwrap_or_default();
                Owner::Session { ids, unfinished: AtomicUsize::new(calls) }
            }
        }
    }

    /// If the call said whose it is.
    pub(crate) fn attribution(&self) -> Option<&Attribution> {
        match self {
            Owner::Known(attribution) => Some(attribution),
            Owner::Session { .. } => None,
        }
    }

    /// Rollout and attempt, which exist from now on.
    pub(crate) async fn ids(&self, proxy: &Proxy) -> Result<(String, String), StoreError> {
        match self {
            Owner::Known(attribution) => Ok((attribution.rollout_id.clone(), attribution.attempt_id.clone())),
            Owner::Session { ids, .. } => {
                let session = ids.get_or_try_init(|| open_session(proxy)).await?;
                Ok((session.rollout_id.clone(), session.attempt_id.clone()))
            }
        }
    }

    /// Notes that one of the calls is recorded. A session is one request, and over with its last call; what it sampled
    /// stays, and can be rewarded later.
    pub(crate) async fn end_call(&self, proxy: &Proxy) -> Result<(), StoreError> {
        if let Owner::Session { ids, unfinished } = self
            && unfinished.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(SessionIds { rollout_id, attempt_id }) = ids.get()
        {
            let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
            proxy.shared.store.update_attempt(rollout_id, attempt_id, ended).await?;
        }
        Ok(())
    }
}

/// Opens a session rollout for a request that names none, so that it is recorded and can be rewarded later.
async fn open_session(proxy: &Proxy) -> Result<SessionIds, StoreError> {
    let rollout = NewRollout {
        input: serde_json::Value::Null,
        metadata: json!({ "kind": "session" }).as_object().cloned(),
        ..NewRollout::default()
    };
    let opened = proxy.shared.store.start_rollout(rollout, None).await?;
    Ok(SessionIds { rollout_id: opened.rollout.rollout_id, attempt_id: opened.attempt.attempt_id })
}
