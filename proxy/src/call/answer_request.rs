use std::sync::{Arc, PoisonError};

use axum::extract::Request;
use axum::response::Response;
use fulgurite_backends::SamplerInfo;
use fulgurite_store::Refused;

use crate::attempt::attribution::{self, Attribution};
use crate::call::model_call;
use crate::call::model_request::{ModelRequest, Prompt};
use crate::call::planning::{Planner, earlier_answers};
use crate::door::large_requests::RequestSize;
use crate::door::whose_call::{CallPath, WhoseCall};
use crate::error::ProxyError;
use crate::gateway::InFlight;
use crate::observe::call_facts::CallFacts;
use crate::reply::http_response;
use crate::reply::reply_writer::ReplyContext;
use crate::retries::logged_requests::Identity;
use crate::retries::request_log::{Claim, Joined};
use crate::{Proxy, SampledModel};

/// Header by which a client says whether the answers may be trained.
const TRAINABLE: &str = "x-fulgurite-trainable";

/// Whose request it is, and whether it came before.
#[derive(Default)]
pub(crate) struct Caller {
    pub(crate) whose: WhoseCall,
    /// Whether the attempt is made if it is not there.
    pub(crate) begins_attempt: bool,
    /// If the gateway counts it.
    pub(crate) in_flight: Option<InFlight>,
    /// `Idempotency-Key`.
    pub(crate) idempotency_key: Option<String>,
    /// How often the client's library says that it sent the request before.
    pub(crate) retries: u32,
    /// Whether its answers may be trained, whatever the rules for side requests say.
    pub(crate) trainable: Option<bool>,
    pub(crate) facts: Arc<CallFacts>,
    /// Of the body.
    pub(crate) size: RequestSize,
}

impl Caller {
    pub(crate) fn new(path: CallPath, request: &Request) -> Result<Self, ProxyError> {
        let whose = WhoseCall::read(path, request.headers(), request.extensions())?;
        Self { whose, ..Self::default() }.told_by(request)
    }

    /// With what headers tell of requests before, which the libraries of OpenAI and Anthropic count, and of training.
    pub(crate) fn told_by(self, request: &Request) -> Result<Self, ProxyError> {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let trainable = header(TRAINABLE).map(|value| {
            value.parse().map_err(|_| ProxyError::invalid(TRAINABLE, format!("{TRAINABLE} must be true or false")))
        });
        Ok(Self {
            idempotency_key: header("idempotency-key").map(str::to_owned),
            retries: header("x-stainless-retry-count").and_then(|count| count.parse().ok()).unwrap_or_default(),
            trainable: trainable.transpose()?,
            facts: request.extensions().get().map(Arc::clone).unwrap_or_default(),
            ..self
        })
    }
}

/// Answers a checked request.
pub(crate) async fn answer(
    proxy: &Proxy,
    mut caller: Caller,
    request: ModelRequest,
) -> Result<Response, Arc<ProxyError>> {
    let model = proxy.shared.argued_renderers.of(proxy.sampled_model(&request.model)?, &request.extra)?;
    let facts = Arc::clone(&caller.facts);
    let metrics = proxy.shared.telemetry.of_model(&model.name);
    facts.is_of_model(&metrics, request.endpoint.operation_name);
    let info = limits(proxy, &model).await?;
    check_capabilities(&request, &info)?;
    warn_of_unseen_tools(proxy, &model, &request, &facts);
    let attribution = attribute(proxy, &caller).await?;
    if let Some(Attribution { rollout_id, attempt_id, .. }) = &attribution {
        facts.attempt.get_or_init(|| (rollout_id.clone(), attempt_id.clone()));
    }
    let is_attributed = caller.whose.named_rollout().is_some();
    let token_ids = request.return_token_ids || (is_attributed && proxy.shared.options.token_ids_on_attributed_path);
    let memory = match &attribution {
        Some(attribution) => Some(proxy.shared.memories.of(proxy, attribution).await.map_err(ProxyError::from)?),
        None => None,
    };
    let log = Arc::clone(memory.as_ref().map_or(&proxy.shared.session_requests, |memory| &memory.requests));
    let identity = Identity {
        digest: request.digest.clone(),
        idempotency_key: caller.idempotency_key.take(),
        retries: caller.retries,
    };
    let reply_id = format!("{}{}", request.endpoint.id_prefix, uuid::Uuid::now_v7().simple());
    let choices = request.asked.choices;
    let (earlier, mut open) = match log.claim(identity, reply_id, model_call::now() as u64).await? {
        Claim::Join(joined) => {
            metrics.joined.increment(1);
            return respond(proxy, request, &model, joined, token_ids, facts).await;
        }
        Claim::New(open) => (Vec::new(), open),
        Claim::Replay(open) => (earlier_answers(proxy, &open.request.reply_id, choices).await?, open),
    };
    let Some(listener) = open.listener.take() else { return Err(model_call::broken_off().into()) };
    let planner = Planner {
        proxy,
        attribution,
        memory,
        request: &request,
        model: &model,
        info: &info,
        metrics: &metrics,
        facts: &facts,
        trainable: caller.trainable,
    };
    let is_new = earlier.is_empty();
    let plan = caller.size.work(proxy, || planner.plan(&open.request, earlier)).await??;
    if !is_new {
        let is_whole = plan.calls.iter().all(|call| call.ended_earlier().is_some());
        if is_whole { &metrics.replayed } else { &metrics.resumed }.increment(1);
    }
    if let Some(call) = plan.calls.first() {
        open.request.attempt.get_or_init(|| call.owner.names());
    }
    open.prepared(&plan.prompt);
    let joined = Joined { request: Arc::clone(&open.request), prompt: plan.prompt, listener };
    model_call::start(proxy, open, plan.calls, caller.in_flight);
    respond(proxy, request, &model, joined, token_ids, facts).await
}

/// The limits of a model's host. While the model's calls are held, one that cannot tell them may come to: a call waits.
async fn limits(proxy: &Proxy, model: &SampledModel) -> Result<SamplerInfo, ProxyError> {
    let gate = proxy.gate(&model.name)?;
    match model.sampler.info().await {
        Err(error) if gate.state().is_paused() => {
            tracing::debug!(model = model.name, %error, "a held model's host does not tell its limits");
        }
        told => return Ok(told?),
    }
    let mut cut = proxy.shared.ending.cut();
    tokio::select! {
        biased;
        Ok(_) = cut.wait_for(|cut| *cut) => return Err(Refused::ShuttingDown.into()),
        // It goes in later, like others.
        inside = gate.enter() => drop(inside),
    }
    Ok(model.sampler.info().await?)
}

/// Hands the answers over to one who listens to them.
async fn respond(
    proxy: &Proxy,
    request: ModelRequest,
    model: &SampledModel,
    joined: Joined,
    token_ids: bool,
    facts: Arc<CallFacts>,
) -> Result<Response, Arc<ProxyError>> {
    let choices = request.asked.choices;
    facts.prompt_tokens.get_or_init(|| joined.prompt.len());
    facts.is_answered_in(&joined.request.attempt);
    let writer = request.reply.writer(ReplyContext {
        id: joined.request.reply_id.clone(),
        created: joined.request.created,
        tokenizer: Arc::clone(model.renderer.tokenizer()),
        model: model.name.clone(),
        prompt: joined.prompt,
        logprobs: request.asked.logprobs || token_ids,
        token_ids,
        choices,
    });
    match request.stream {
        true => http_response::stream(joined.listener, writer, choices, proxy.shared.options.keep_alive, facts).await,
        false => http_response::whole(joined.listener, writer, choices, &facts).await,
    }
}

/// Tells client and log of tools that the model does not hear of.
fn warn_of_unseen_tools(proxy: &Proxy, model: &SampledModel, request: &ModelRequest, facts: &CallFacts) {
    let Prompt::Messages(said) = &request.prompt else { return };
    if said.tools.is_empty() || model.renderer.shows_tools() {
        return;
    }
    let warning = unseen_tools(&model.name);
    if proxy.shared.warned_of_tools.lock().unwrap_or_else(PoisonError::into_inner).insert(model.name.clone()) {
        tracing::warn!("a request declares tools: {warning}");
    }
    facts.warn(warning);
}

/// What is said of a model whose template leaves tools out.
pub fn unseen_tools(model: &str) -> String {
    format!(
        "the template of the model `{model}` shows no tools, so the model does not hear of those that a request declares: \
         serve it with tools = \"preamble\" to tell it of them in the system message"
    )
}

/// Refuses by name what the model's host cannot do.
fn check_capabilities(request: &ModelRequest, info: &SamplerInfo) -> Result<(), ProxyError> {
    let asked = &request.asked;
    match info.capabilities.missing(&asked.sampling, asked.top_logprobs) {
        None => Ok(()),
        Some(field) => Err(ProxyError::invalid(field, format!("{field} is not supported by this model's host"))),
    }
}

/// Whose call it is, if that is said.
pub(crate) async fn attribute(proxy: &Proxy, caller: &Caller) -> Result<Option<Attribution>, ProxyError> {
    let attribution = match &caller.whose {
        WhoseCall::Unsaid => return Ok(None),
        WhoseCall::Session(session) => attribution::resolve_session(proxy, session).await?,
        WhoseCall::Attempt { rollout_id, attempt_id } => {
            if let (Some(attempt_id), true) = (attempt_id, caller.begins_attempt) {
                proxy.shared.store.open_attempt(rollout_id, attempt_id).await?;
            }
            attribution::resolve(proxy, rollout_id, attempt_id.as_deref()).await?
        }
    };
    Ok(Some(attribution))
}
