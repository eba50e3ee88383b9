use fulgurite_backends::derive_seed;
use fulgurite_store::Store;
use fulgurite_types::{
    Attempt, AttemptStatus, AttemptUpdate, NewRollout, Rollout, RolloutConfig, RolloutSampling, RolloutStatus,
};
use serde_json::json;

use crate::attempt::budget::{Allowance, Budget};
use crate::error::ProxyError;
use crate::requests::call_target::{CallMaker, CallTarget, ClientSession};
use fulgurite_types::time::now;

/// Whose call it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attribution {
    pub(crate) rollout_id: String,
    pub(crate) attempt_id: String,
    /// Seed of the rollout; calls derive theirs from it and from their place.
    pub(crate) rollout_seed: u64,
    /// None of a call that its grader makes: the budget is the agent's.
    pub(crate) allowance: Option<Allowance>,
    /// What its agent's calls of a model are sampled with that leave it out.
    pub(crate) sampling: Option<RolloutSampling>,
    /// Nothing has been recorded of the attempt.
    pub(crate) is_unheard: bool,
}

/// For how long a client's session may be silent before the watchdog closes it. Its next call opens it again.
const SESSION_SILENCE_SECONDS: f64 = 3600.0;

/// Defaults of a rollout that sets nothing itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RolloutDefaults {
    /// What its calls may take together.
    pub(crate) budget: Budget,
    /// The seed from which its own follows.
    pub(crate) seed: u64,
}

/// The attempt that a call belongs to, if the request names it; with `begins_attempt`, the attempt is created if it does
/// not exist.
pub(crate) async fn attribute(
    store: &Store,
    defaults: RolloutDefaults,
    target: &CallTarget,
    maker: CallMaker,
    begins_attempt: bool,
) -> Result<Option<Attribution>, ProxyError> {
    let mut attribution = match target {
        CallTarget::Unnamed => return Ok(None),
        CallTarget::Session(session) => resolve_session(store, defaults.seed, session).await?,
        CallTarget::Attempt { rollout_id, attempt_id } => {
            if let (Some(attempt_id), true) = (attempt_id, begins_attempt) {
                store.attempts().open(rollout_id, attempt_id).await?;
            }
            resolve(store, defaults, rollout_id, attempt_id.as_deref()).await?
        }
    };
    match maker {
        CallMaker::Agent => {}
        // A policy that has spent its budget is graded all the same.
        CallMaker::Grader => (attribution.allowance, attribution.sampling) = (None, None),
    }
    Ok(Some(attribution))
}

/// Checks that a rollout and its attempt exist and that the attempt still runs: of no attempt's id, the latest. The name of a
/// session stands for its rollout's id.
async fn resolve(
    store: &Store,
    defaults: RolloutDefaults,
    rollout_id: &str,
    attempt_id: Option<&str>,
) -> Result<Attribution, ProxyError> {
    let unknown = || ProxyError::UnknownTarget { kind: "rollout", id: rollout_id.to_owned() };
    let found = match store.rollouts().cached(rollout_id).await? {
        Some(found) => found,
        // Nearly every call names an id, which costs one look less.
        None => store.rollouts().cached(&store.rollouts().id_of(rollout_id).await?).await?.ok_or_else(unknown)?,
    };
    let (rollout, latest) = &*found;
    // Nearly every call is of the latest attempt, which is known already.
    let attempt = match (attempt_id, latest) {
        (None, Some(latest)) => latest.clone(),
        (None, None) => return Err(no_attempt_yet(rollout_id)),
        (Some(id), Some(latest)) if latest.attempt_id == id => latest.clone(),
        (Some(id), _) => match store.attempts().get(&rollout.rollout_id, id).await? {
            Some(earlier) => earlier,
            None => return Err(ProxyError::UnknownTarget { kind: "attempt", id: id.to_owned() }),
        },
    };
    let budget = defaults.budget.of(rollout)?;
    running(defaults.seed, rollout, attempt, budget)
}

fn no_attempt_yet(rollout_id: &str) -> ProxyError {
    ProxyError::InvalidRequest {
        message: format!("the rollout `{rollout_id}` has no attempt yet, to which the call could belong"),
        parameter: Some("x-rollout-id".to_owned()),
        code: Some("attempt_not_found"),
    }
}

/// The attempt of a client's session, which begins with the session's first call.
async fn resolve_session(store: &Store, seed: u64, session: &ClientSession) -> Result<Attribution, ProxyError> {
    let known = store.rollouts().cached(&session.rollout_id).await?;
    let (rollout, attempt) = match known.as_deref() {
        Some((rollout, Some(attempt))) => (rollout.clone(), attempt.clone()),
        _ => {
            // Of several first calls at once, one begins it and the others are given the same.
            let started = store.rollouts().start(rollout_of(session), None).await?;
            (started.rollout, started.attempt)
        }
    };
    let attempt = match (attempt.status, rollout.status) {
        // Silent for too long: before this call, or while the last one was sampled.
        (AttemptStatus::Unresponsive, _) | (AttemptStatus::Running, RolloutStatus::Failed) => {
            let activity =
                AttemptUpdate { last_heartbeat_time: Some(now()), ..AttemptUpdate::status(AttemptStatus::Running) };
            store.attempts().update(&rollout.rollout_id, attempt.attempt_id.as_str(), activity).await?
        }
        _ => attempt,
    };
    // It lasts as long as its client.
    running(seed, &rollout, attempt, Budget::default())
}

fn rollout_of(session: &ClientSession) -> NewRollout {
    let metadata = json!({ "kind": "session", "session": { "header": session.header, "name": session.name } });
    NewRollout {
        rollout_id: Some(session.rollout_id.clone()),
        metadata: metadata.as_object().cloned(),
        config: Some(RolloutConfig { unresponsive_seconds: Some(SESSION_SILENCE_SECONDS), ..RolloutConfig::default() }),
        ..NewRollout::default()
    }
}

/// An attempt that takes calls.
fn running(seed: u64, rollout: &Rollout, attempt: Attempt, budget: Budget) -> Result<Attribution, ProxyError> {
    let Attempt { rollout_id, attempt_id, status, start_time, last_heartbeat_time, .. } = attempt;
    if status.is_ended() {
        return Err(ProxyError::AttemptEnded { attempt_id, status: status.as_str().to_owned() });
    }
    let sampling = rollout.sampling();
    let given = rollout.metadata.as_ref().and_then(|metadata| metadata.get("seed")).and_then(|seed| seed.as_u64());
    let rollout_seed = given.unwrap_or_else(|| derive_seed(seed, &[&rollout_id]));
    // Everything that is recorded of an attempt also counts as its heartbeat.
    let is_unheard = last_heartbeat_time.is_none();
    let allowance = Some(Allowance { budget, start_time });
    Ok(Attribution { rollout_id, attempt_id, rollout_seed, allowance, sampling, is_unheard })
}
