use std::sync::atomic::{AtomicUsize, Ordering};

use fulgurite_backends::derive_seed;
use fulgurite_store::StoreError;
use fulgurite_types::{
    Attempt, AttemptStatus, AttemptUpdate, NewRollout, Rollout, RolloutConfig, RolloutStatus, SessionIds,
};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::Proxy;
use crate::attempt::budget::{Allowance, Budget};
use crate::call::model_call;
use crate::door::whose_call::ClientSession;
use crate::error::ProxyError;

/// Whose call it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribution {
    pub(crate) rollout_id: String,
    pub(crate) attempt_id: String,
    /// Seed of the rollout; calls derive theirs from it and from their place.
    pub(crate) rollout_seed: u64,
    pub(crate) allowance: Allowance,
    /// Nothing has been recorded of the attempt.
    pub(crate) is_unheard: bool,
}

/// For how long a client's session may be silent before the watchdog closes it. Its next call opens it again.
const SESSION_SILENCE_SECONDS: f64 = 3600.0;

/// Checks that a rollout and its attempt exist and that the attempt still runs: of no attempt's id, the latest.
pub(crate) async fn resolve(
    proxy: &Proxy,
    rollout_id: &str,
    attempt_id: Option<&str>,
) -> Result<Attribution, ProxyError> {
    let store = &proxy.shared.store;
    let Some(found) = store.rollout_of_calls(rollout_id).await? else {
        return Err(ProxyError::UnknownTarget { kind: "rollout", id: rollout_id.to_owned() });
    };
    let (rollout, latest) = &*found;
    // Nearly every call is of the latest attempt, which is known already.
    let attempt = match (attempt_id, latest) {
        (None, Some(latest)) => latest.clone(),
        (None, None) => return Err(no_attempt_yet(rollout_id)),
        (Some(id), Some(latest)) if latest.attempt_id == id => latest.clone(),
        (Some(id), _) => match store.get_attempt(rollout_id, id).await? {
            Some(earlier) => earlier,
            None => return Err(ProxyError::UnknownTarget { kind: "attempt", id: id.to_owned() }),
        },
    };
    let budget = proxy.shared.options.budget.of(rollout)?;
    running(proxy, rollout, attempt, budget)
}

fn no_attempt_yet(rollout_id: &str) -> ProxyError {
    ProxyError::InvalidRequest {
        message: format!("the rollout `{rollout_id}` has no attempt yet, to which the call could belong"),
        parameter: Some("x-rollout-id".to_owned()),
        code: Some("attempt_not_found"),
    }
}

/// The attempt of a client's session, which begins with the session's first call.
pub(crate) async fn resolve_session(proxy: &Proxy, session: &ClientSession) -> Result<Attribution, ProxyError> {
    let store = &proxy.shared.store;
    let known = store.rollout_of_calls(&session.rollout_id).await?;
    let (rollout, attempt) = match known.as_deref() {
        Some((rollout, Some(attempt))) => (rollout.clone(), attempt.clone()),
        _ => {
            // Of several first calls at once, one begins it and the others are given the same.
            let started = store.start_rollout(rollout_of(session), None).await?;
            (started.rollout, started.attempt)
        }
    };
    let attempt = match (attempt.status, rollout.status) {
        // Silent for too long: before this call, or while the last one was sampled.
        (AttemptStatus::Unresponsive, _) | (AttemptStatus::Running, RolloutStatus::Failed) => {
            let heard = AttemptUpdate {
                last_heartbeat_time: Some(model_call::now()),
                ..AttemptUpdate::status(AttemptStatus::Running)
            };
            store.update_attempt(&rollout.rollout_id, attempt.attempt_id.as_str(), heard).await?
        }
        _ => attempt,
    };
    // It goes on for as long as its client does.
    running(proxy, &rollout, attempt, Budget::default())
}

fn rollout_of(session: &ClientSession) -> NewRollout {
    let metadata = json!({ "kind": "session", "session": { "header": session.header } });
    NewRollout {
        rollout_id: Some(session.rollout_id.clone()),
        metadata: metadata.as_object().cloned(),
        config: Some(RolloutConfig { unresponsive_seconds: Some(SESSION_SILENCE_SECONDS), ..RolloutConfig::default() }),
        ..NewRollout::default()
    }
}

/// An attempt that takes calls.
fn running(proxy: &Proxy, rollout: &Rollout, attempt: Attempt, budget: Budget) -> Result<Attribution, ProxyError> {
    let Attempt { rollout_id, attempt_id, status, start_time, last_heartbeat_time, .. } = attempt;
    if status.is_ended() {
        return Err(ProxyError::AttemptEnded { attempt_id, status: status.as_str().to_owned() });
    }
    let given = rollout.metadata.as_ref().and_then(|metadata| metadata.get("seed")).and_then(|seed| seed.as_u64());
    let rollout_seed = given.unwrap_or_else(|| derive_seed(proxy.shared.options.seed, &[&rollout_id]));
    // Whatever is recorded of an attempt tells that it was heard of.
    let is_unheard = last_heartbeat_time.is_none();
    let allowance = Allowance { budget, start_time };
    Ok(Attribution { rollout_id, attempt_id, rollout_seed, allowance, is_unheard })
}

/// To whom a request's generations belong: to an attempt that is known, or to a session of their own, which is opened
/// once there is something to record.
pub(crate) enum Owner {
    Known(Attribution),
    Session {
        ids: SessionIds,
        /// Set once it is there.
        opened: OnceCell<()>,
        /// Calls that are not recorded yet.
        unfinished: AtomicUsize,
    },
}

impl Owner {
    /// The owner of so many calls, which may have a session already.
    pub(crate) fn new(attribution: Option<Attribution>, session: Option<SessionIds>, calls: usize) -> Self {
        match attribution {
            Some(attribution) => Owner::Known(attribution),
            None => {
                let opened = session.as_ref().map(|_| OnceCell::from(())).unwrap_or_default();
                Owner::Session { ids: session.unwrap_or_default(), opened, unfinished: AtomicUsize::new(calls) }
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
            Owner::Session { ids, opened, .. } => {
                opened.get_or_try_init(|| proxy.shared.store.start_session(ids)).await?;
                Ok(self.names())
            }
        }
    }

    /// Rollout and attempt, which a session may not have yet: it is opened with the first record.
    pub(crate) fn names(&self) -> (String, String) {
        match self {
            Owner::Known(Attribution { rollout_id, attempt_id, .. })
            | Owner::Session { ids: SessionIds { rollout_id, attempt_id }, .. } => {
                (rollout_id.clone(), attempt_id.clone())
            }
        }
    }

    /// Whether what is to be recorded is one call alone, whose session begins and ends with it.
    pub(crate) fn is_one_call(&self) -> bool {
        matches!(self, Owner::Session { opened, unfinished, .. } if !opened.initialized() && unfinished.load(Ordering::Acquire) == 1)
    }

    /// Notes that one of the calls is recorded. A session is one request, and over with its last call; what it sampled
    /// stays, and can be rewarded later.
    pub(crate) async fn end_call(&self, proxy: &Proxy) -> Result<(), StoreError> {
        if let Owner::Session { ids: SessionIds { rollout_id, attempt_id }, opened, unfinished } = self
            && unfinished.fetch_sub(1, Ordering::AcqRel) == 1
            && opened.initialized()
        {
            let ended = AttemptUpdate::status(AttemptStatus::Succeeded);
            proxy.shared.store.update_attempt(rollout_id, attempt_id, ended).await?;
        }
        Ok(())
    }
}
