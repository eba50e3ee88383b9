use std::sync::Arc;

use axum::response::Response;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::forwarded_request::request_of;
use super::http_response::respond;
use super::relay::{Answered, Relay};
use super::route::Route;
use crate::attempt::attribution::{Attribution, attribute};
use crate::attempt::joined_session::{SessionLogs, SessionSearch, UnnamedConversation};
use crate::attempt::owner::Owner;
use crate::error::ProxyError;
use crate::models::pause_state::InFlight;
use crate::models::served_model::UpstreamModel;
use crate::observe::call_facts::CallFacts;
use crate::parts::Parts;
use crate::record::delivery::mark;
use crate::requests::call_target::CallTarget;
use crate::requests::caller::Caller;
use crate::requests::exact_json::{ExactValues, WHOLE};
use crate::requests::incoming_request::IncomingRequest;
use crate::requests::request_body;
use crate::retries::logged_requests::Identity;
use crate::retries::request_log::{Claim, OpenRequest};
use crate::state::call_services::CallServices;
use crate::state::forwarded_calls::ForwardedCalls;
use crate::state::forwarded_part::ForwardedPart;
use crate::state::reply_cache::CachedReply;
use crate::upstream::forwarded_call::{Admitted, ForwardedCall};
use fulgurite_types::time::now;

/// Fields by which a request names messages that its upstream remembers.
const KEPT_BY_UPSTREAM: [&str; 2] = ["previous_response_id", "conversation"];

/// Forwards a request to the upstream of its model, unless it is a retry, and the answer back.
pub(crate) async fn forward_call(
    parts: &Parts,
    model: &UpstreamModel,
    route: Route,
    mut incoming: IncomingRequest,
) -> Result<Response, Arc<ProxyError>> {
    let Parts { models, services, forwarded_calls, .. } = parts;
    check_dialect(model, route)?;
    models.check_reserved(&model.name, &incoming.caller.key)?;
    let mut attribution = attribution(parts, route, &incoming.caller).await?;
    let exact = route.exact_values(&incoming.body);
    let digest = exact.digest(request_body::digest(&incoming.fields));
    let identity = identity(route, &incoming, attribution.as_ref());
    let reply_id = uuid::Uuid::now_v7().to_string();
    let facts = Arc::clone(&incoming.caller.facts);
    let metrics = parts.telemetry.of_model(&model.name);
    if route.is_recorded() {
        facts.is_of_model(&metrics, route.operation());
    }
    note_attempt(&facts, attribution.as_ref());
    let unnamed = unnamed_conversation(parts, route, &incoming, &exact, &model.name).await?;
    let open = match forwarded_calls.requests.claim(identity.clone(), reply_id, now() as u64).await? {
        Claim::Join(joined) => {
            metrics.joined.increment(1);
            facts.is_answered_in(&joined.request.attempt);
            return respond(joined.listener, route, facts).await;
        }
        Claim::Replay(open) => match forwarded_calls.reply_cache.get(&open.request.reply_id) {
            Some(kept) => {
                metrics.replayed.increment(1);
                return replay(services, open, kept, route, facts).await;
            }
            None => open,
        },
        Claim::New(open) => open,
    };
    if attribution.is_none() {
        attribution = continued_session(parts, &open, unnamed.as_ref(), &identity).await?;
        note_attempt(&facts, attribution.as_ref());
    }
    let admission = admit(parts, attribution.as_ref(), route, &incoming.fields).await?;
    let call = ForwardedCall {
        route,
        model: model.clone(),
        // What was registered at the gateway has none.
        gate: models.gate(&model.name).cloned().unwrap_or_default(),
        request: request_of(model, route, &incoming, attribution.as_ref().map(|of| of.rollout_id.clone())),
        owner: Owner::new(attribution, None, 1),
        unnamed,
        fields: incoming.fields,
        exact,
        digest,
        idempotency_key: incoming.caller.idempotency_key.take(),
        admission,
        facts,
        start_time: now(),
    };
    start(services, forwarded_calls, open, call, incoming.caller.in_flight.take()).await
}

/// The attempt that a recorded call names, if it names one.
async fn attribution(parts: &Parts, route: Route, caller: &Caller) -> Result<Option<Attribution>, ProxyError> {
    if !route.is_recorded() {
        return Ok(None);
    }
    let Caller { target, maker, begins_attempt, .. } = caller;
    let defaults = parts.options.rollout_defaults();
    attribute(&parts.services.store, defaults, target, *maker, *begins_attempt).await
}

/// The session that a call without a name continues, if it does.
async fn continued_session(
    parts: &Parts,
    open: &OpenRequest<ForwardedPart>,
    unnamed: Option<&UnnamedConversation>,
    identity: &Identity,
) -> Result<Option<Attribution>, ProxyError> {
    let Parts { options, services, .. } = parts;
    let (store, seed, gap) = (&services.store, options.seed, options.conversation_gap);
    let search = SessionSearch { store, logs: SessionLogs::OfAll, seed, gap };
    Ok(match (open.request.attempt.get(), unnamed) {
        // It was answered, and what was kept of that has given way.
        (Some((rollout_id, attempt_id)), _) => Some(search.session(rollout_id, attempt_id)),
        (None, Some(unnamed)) => search.find(unnamed, identity).await?,
        (None, None) => None,
    })
}

/// Takes a call from the budget of its attempt, if that has one.
async fn admit(
    parts: &Parts,
    attribution: Option<&Attribution>,
    route: Route,
    fields: &Map<String, Value>,
) -> Result<Option<Admitted>, ProxyError> {
    let Some(attribution) = attribution.filter(|_| route.is_generation()) else { return Ok(None) };
    let memory = parts.services.memories.of(&parts.services.store, &parts.models, attribution).await?;
    attribution.allowance.map(|allowance| Admitted::of(&memory, allowance, route, fields)).transpose()
}

/// Refuses dialects that the upstream does not have, by name.
fn check_dialect(model: &UpstreamModel, route: Route) -> Result<(), ProxyError> {
    let spoken = model.upstream.dialect();
    if spoken == route.dialect() {
        return Ok(());
    }
    let (name, path) = (&model.name, route.path());
    Err(ProxyError::InvalidRequest {
        message: format!(
            "the calls of `{name}` are passed on to an upstream that speaks the dialect `{}`; /v1/{path} is of `{}`",
            spoken.name(),
            route.dialect().name()
        ),
        parameter: Some("model".to_owned()),
        code: Some("upstream_dialect"),
    })
}

fn note_attempt(facts: &CallFacts, attribution: Option<&Attribution>) {
    if let Some(Attribution { rollout_id, attempt_id, .. }) = attribution {
        facts.attempt.get_or_init(|| (rollout_id.clone(), attempt_id.clone()));
    }
}

/// The messages of a call that names neither a rollout nor a session, if such ones are recognised by content. What the
/// upstream alone remembers of a conversation cannot be compared.
async fn unnamed_conversation(
    parts: &Parts,
    route: Route,
    incoming: &IncomingRequest,
    exact: &ExactValues,
    model: &str,
) -> Result<Option<UnnamedConversation>, ProxyError> {
    let Parts { options, large_requests, .. } = parts;
    let IncomingRequest { caller, fields, .. } = incoming;
    let is_whole = KEPT_BY_UPSTREAM.iter().all(|field| fields.get(*field).is_none_or(Value::is_null));
    if !matches!(caller.target, CallTarget::Unnamed)
        || !route.is_generation()
        || !is_whole
        || options.conversation_gap.is_zero()
    {
        return Ok(None);
    }
    let unnamed = || {
        let messages = route.conversation(fields, exact).messages;
        (!messages.is_empty()).then(|| UnnamedConversation::new(&messages, model, caller.sent_key.as_deref()))
    };
    caller.size.work(large_requests, unnamed).await
}

/// What identifies a request that is sent again: its route, its owner, and all of its body, because a kept reply is bytes.
fn identity(route: Route, incoming: &IncomingRequest, attribution: Option<&Attribution>) -> Identity {
    let owner = attribution.map(|of| format!("{}\n{}", of.rollout_id, of.attempt_id)).unwrap_or_default();
    let mut body = Value::Object(incoming.fields.clone());
    body.sort_all_objects();
    let body = ExactValues::read(&incoming.body, &[WHOLE]).digest(body.to_string());
    let digest = Sha256::new().chain_update(format!("{}\n{owner}\n", route.path())).chain_update(body).finalize();
    let caller = &incoming.caller;
    Identity {
        digest: format!("{digest:x}"),
        idempotency_key: caller.idempotency_key.as_ref().map(|key| format!("{owner}\n{key}")),
        retries: caller.retries,
    }
}

async fn start(
    services: &Arc<CallServices>,
    forwarded_calls: &Arc<ForwardedCalls>,
    mut open: OpenRequest<ForwardedPart>,
    call: ForwardedCall,
    in_flight: Option<InFlight>,
) -> Result<Response, Arc<ProxyError>> {
    let (route, facts) = (call.route, Arc::clone(&call.facts));
    let Some(listener) = open.listener.take() else { return Err(ProxyError::broken_off().into()) };
    if route.is_recorded() {
        open.request.attempt.get_or_init(|| call.owner.names());
        facts.is_answered_in(&open.request.attempt);
    }
    open.prepared(&Arc::default());
    #[expect(
        clippy::disallowed_methods,
        reason = "a call goes on to its record, and ends when nobody listens; shutdown counts those in flight"
    )]
    tokio::spawn(run(Arc::clone(services), Arc::clone(forwarded_calls), open, call, in_flight));
    respond(listener, route, facts).await
}

/// Runs a call until it is recorded, even without listeners, and notes whether the answer was delivered.
async fn run(
    services: Arc<CallServices>,
    forwarded_calls: Arc<ForwardedCalls>,
    open: OpenRequest<ForwardedPart>,
    call: ForwardedCall,
    _in_flight: Option<InFlight>,
) {
    let _under_way = services.shutdown.begin();
    let outcome = Relay::new(&services, &call, &open.flight).run().await;
    let was_delivered = open.flight.settled().await;
    let Some(Answered { parts, recorded }) = outcome else { return };
    if mark(&services.store, recorded.as_slice(), was_delivered).await {
        let generation_id = recorded.map(|recorded| recorded.generation_id);
        forwarded_calls.reply_cache.keep(&open.request.reply_id, Arc::new(CachedReply { generation_id, parts }));
        open.answered(was_delivered);
    }
}

/// Sends a cached reply for a request that is sent again.
async fn replay(
    services: &Arc<CallServices>,
    mut open: OpenRequest<ForwardedPart>,
    kept: Arc<CachedReply>,
    route: Route,
    facts: Arc<CallFacts>,
) -> Result<Response, Arc<ProxyError>> {
    let Some(listener) = open.listener.take() else { return Err(ProxyError::broken_off().into()) };
    facts.is_answered_in(&open.request.attempt);
    open.prepared(&Arc::default());
    let services = Arc::clone(services);
    #[expect(clippy::disallowed_methods, reason = "it ends when the flight has settled")]
    tokio::spawn(async move {
        kept.parts.iter().for_each(|part| open.flight.publish(part.clone()));
        let was_delivered = open.flight.settled().await;
        if let (Some(generation_id), true) = (&kept.generation_id, was_delivered)
            && let Err(error) = services.store.recording().set_client_disconnected(generation_id, false).await
        {
            tracing::error!(%generation_id, %error, "could not note that a client took its answer");
        }
        // It stays delivered if the same request is sent again and its client leaves.
        let was_delivered = was_delivered || open.was_delivered();
        open.answered(was_delivered);
    });
    respond(listener, route, facts).await
}
