use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use bytes::Bytes;
use fulgurite_backends::UpstreamRequest;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio::time::timeout_at;

use super::forwarded_request::{request_headers, request_of, response_headers, without_key};
use super::http_response::respond;
use super::kept_replies::KeptReply;
use super::relay::{Answered, BODY_LIMIT, Passed, Relay};
use super::route::Route;
use crate::attempt::attribution::{Attribution, Owner};
use crate::attempt::budget::{Admission, Asking, Spending};
use crate::call::answer_request::attribute;
use crate::call::model_call;
use crate::call::sampling::Deadlines;
use crate::door::incoming::Incoming;
use crate::door::request_body;
use crate::error::ProxyError;
use crate::gateway::InFlight;
use crate::observe::call_facts::CallFacts;
use crate::record::record_call::mark;
use crate::retries::logged_requests::Identity;
use crate::retries::request_log::{Claim, OpenRequest};
use crate::{Proxy, UpstreamModel};

/// A call that is passed on, and all that is recorded of it.
pub(super) struct PassedCall {
    pub(super) route: Route,
    pub(super) model: UpstreamModel,
    pub(super) request: UpstreamRequest,
    pub(super) owner: Owner,
    /// The client's body.
    pub(super) fields: Map<String, Value>,
    pub(super) digest: String,
    pub(super) idempotency_key: Option<String>,
    /// What lets it take from its attempt's budget, if it belongs to one.
    pub(super) admission: Option<Admitted>,
    pub(super) facts: Arc<CallFacts>,
    /// Seconds since the epoch.
    pub(super) start_time: f64,
}

/// Passes a request on to the upstream of its model, unless it is there already, and its answer back.
pub(crate) async fn pass_on(
    proxy: &Proxy,
    model: &UpstreamModel,
    route: Route,
    mut incoming: Incoming,
) -> Result<Response, Arc<ProxyError>> {
    check_dialect(model, route)?;
    let attribution = match route.is_recorded() {
        true => attribute(proxy, &incoming.caller).await?,
        false => None,
    };
    let digest = request_body::digest(&incoming.fields);
    let identity = identity(route, &incoming, attribution.as_ref());
    let reply_id = uuid::Uuid::now_v7().to_string();
    let facts = Arc::clone(&incoming.caller.facts);
    let metrics = proxy.shared.telemetry.of_model(&model.name);
    if route.is_recorded() {
        facts.is_of_model(&metrics, route.operation());
    }
    if let Some(Attribution { rollout_id, attempt_id, .. }) = &attribution {
        facts.attempt.get_or_init(|| (rollout_id.clone(), attempt_id.clone()));
    }
    let open = match proxy.shared.upstream_requests.claim(identity, reply_id, model_call::now() as u64).await? {
        Claim::Join(joined) => {
            metrics.joined.increment(1);
            facts.is_answered_in(&joined.request.attempt);
            return respond(joined.listener, route, facts).await;
        }
        Claim::Replay(open) => match proxy.shared.kept_replies.get(&open.request.reply_id) {
            Some(kept) => {
                metrics.replayed.increment(1);
                return replay(proxy, open, kept, route, facts).await;
            }
            None => open,
        },
        Claim::New(open) => open,
    };
    let admission = match &attribution {
        Some(attribution) if route.is_generation() => {
            Some(Admitted::of(proxy, attribution, route, &incoming.fields).await?)
        }
        _ => None,
    };
    let call = PassedCall {
        route,
        model: model.clone(),
        request: request_of(model, route, &incoming, attribution.as_ref().map(|whose| whose.rollout_id.clone())),
        owner: Owner::new(attribution, None, 1),
        fields: incoming.fields,
        digest,
        idempotency_key: incoming.caller.idempotency_key.take(),
        admission,
        facts,
        start_time: model_call::now(),
    };
    fly(proxy, open, call, incoming.caller.in_flight.take()).await
}

/// A call that was let in by its attempt's budget before anybody could count its prompt.
pub(super) struct Admitted {
    admission: Admission,
    spending: Arc<Spending>,
}

impl Admitted {
    /// A prompt is taken to have this many tokens until the upstream has counted it.
    const PROMPT_TOKENS: usize = 1;

    async fn of(
        proxy: &Proxy,
        attribution: &Attribution,
        route: Route,
        fields: &Map<String, Value>,
    ) -> Result<Self, ProxyError> {
        let memory = proxy.shared.memories.of(proxy, attribution).await?;
        let asking = Asking {
            prompt_tokens: Self::PROMPT_TOKENS,
            choices: 1,
            answer_tokens: asked_tokens(fields),
            prompt_field: route.prompt_field(),
        };
        let spending = Arc::clone(&memory.spending);
        Ok(Self { admission: spending.admit(attribution.allowance, asking)?, spending })
    }

    /// The call is recorded, with as many tokens as the upstream counts.
    pub(super) fn is_recorded(&self, tokens: u64) {
        self.admission.is_recorded();
        let counted = usize::try_from(tokens).unwrap_or(usize::MAX);
        self.spending.sampled(counted.saturating_sub(Self::PROMPT_TOKENS));
    }
}

/// The most tokens that a request asks for, in any dialect; none if it does not say.
fn asked_tokens(fields: &Map<String, Value>) -> usize {
    let limits = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let asked = limits.iter().find_map(|limit| fields.get(*limit)?.as_u64()).unwrap_or_default();
    usize::try_from(asked).unwrap_or(usize::MAX)
}

/// Refuses by name what the upstream has no words for.
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

/// What tells a request that is sent again from others: its route, its owner, and all of its body, for what is kept of
/// an answer are its bytes.
fn identity(route: Route, incoming: &Incoming, attribution: Option<&Attribution>) -> Identity {
    let owner = attribution.map(|whose| format!("{}\n{}", whose.rollout_id, whose.attempt_id)).unwrap_or_default();
    let mut body = Value::Object(incoming.fields.clone());
    body.sort_all_objects();
    let digest =
        Sha256::new().chain_update(format!("{}\n{owner}\n", route.path())).chain_update(body.to_string()).finalize();
    let caller = &incoming.caller;
    Identity {
        digest: format!("{digest:x}"),
        idempotency_key: caller.idempotency_key.as_ref().map(|key| format!("{owner}\n{key}")),
        retries: caller.retries,
    }
}

async fn fly(
    proxy: &Proxy,
    mut open: OpenRequest<Passed>,
    call: PassedCall,
    in_flight: Option<InFlight>,
) -> Result<Response, Arc<ProxyError>> {
    let (route, facts) = (call.route, Arc::clone(&call.facts));
    let Some(listener) = open.listener.take() else { return Err(model_call::broken_off().into()) };
    if route.is_recorded() {
        open.request.attempt.get_or_init(|| call.owner.names());
        facts.is_answered_in(&open.request.attempt);
    }
    open.prepared(&Arc::default());
    tokio::spawn(run(proxy.clone(), open, call, in_flight));
    respond(listener, route, facts).await
}

/// Runs a call to its record, whether or not anybody still listens, and notes whether somebody took the answer.
async fn run(proxy: Proxy, open: OpenRequest<Passed>, call: PassedCall, _in_flight: Option<InFlight>) {
    let _under_way = proxy.shared.ending.begin();
    let outcome = Relay::new(&proxy, &call, &open.flight).run().await;
    let was_delivered = open.flight.settled().await;
    let Some(Answered { passed, recorded }) = outcome else { return };
    if mark(&proxy, recorded.as_slice(), was_delivered).await {
        let generation_id = recorded.map(|recorded| recorded.generation_id);
        proxy.shared.kept_replies.keep(&open.request.reply_id, Arc::new(KeptReply { generation_id, passed }));
        open.answered(was_delivered);
    }
}

/// Gives a kept reply to one who asks for it again.
async fn replay(
    proxy: &Proxy,
    mut open: OpenRequest<Passed>,
    kept: Arc<KeptReply>,
    route: Route,
    facts: Arc<CallFacts>,
) -> Result<Response, Arc<ProxyError>> {
    let Some(listener) = open.listener.take() else { return Err(model_call::broken_off().into()) };
    facts.is_answered_in(&open.request.attempt);
    open.prepared(&Arc::default());
    let proxy = proxy.clone();
    tokio::spawn(async move {
        kept.passed.iter().for_each(|passed| open.flight.tell(passed.clone()));
        let was_delivered = open.flight.settled().await;
        if let (Some(generation_id), true) = (&kept.generation_id, was_delivered)
            && let Err(error) = proxy.shared.store.set_client_gone(generation_id, false).await
        {
            tracing::error!(%generation_id, %error, "could not note that a client took its answer");
        }
        // It is not taken from whoever got it before by one who asked for it again and left.
        let was_delivered = was_delivered || open.was_delivered();
        open.answered(was_delivered);
    });
    respond(listener, route, facts).await
}

/// Asks the upstream for a response that it keeps under an id. No model answers, so that nothing is recorded.
pub(crate) async fn retrieve(
    proxy: &Proxy,
    model: &UpstreamModel,
    response_id: &str,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Response, ProxyError> {
    let request = UpstreamRequest {
        method: Method::GET,
        path: format!("{}/{response_id}", Route::Responses.path()),
        query: query.map(str::to_owned),
        headers: request_headers(headers),
        body: Bytes::new(),
        affinity: None,
    };
    let asked = async {
        let mut reply = model.upstream.send(&request).await?;
        let body = reply.body(BODY_LIMIT).await?;
        Ok::<_, ProxyError>((reply, body))
    };
    let until = Deadlines::new(proxy.shared.options.sampling_limits, None).whole;
    let (reply, body) = timeout_at(until.at, asked).await.map_err(|_| until.error())??;
    let key = model.upstream.api_key();
    let mut response = Response::new(Body::from(without_key(body, key)));
    *response.status_mut() = reply.status;
    *response.headers_mut() = response_headers(&reply.headers, key);
    Ok(response)
}
