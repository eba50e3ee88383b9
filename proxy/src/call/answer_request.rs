use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use fulgurite_api::Refused;
use fulgurite_backends::SamplerInfo;

use crate::attempt::attribution::{Attribution, attribute};
use crate::attempt::joined_session::{SessionLogs, SessionSearch, UnnamedConversation};
use crate::attempt::notes::note;
use crate::attempt::placed_prompt::PlacedPrompt;
use crate::call::call_services::CallServices;
use crate::call::model_request::{ModelRequest, Prompt};
use crate::call::planning::{Planner, placed_prompt};
use crate::call::run_call::start;
use crate::call::sampling::{Patience, is_away};
use crate::call::shutdown::Shutdown;
use crate::clock::now;
use crate::dialects::field_kinds::{LeftOut, UnknownFields};
use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::served_model::SampledModel;
use crate::models::served_models::{CalledModel, ServedModels};
use crate::models::template_arguments::ToldModel;
use crate::observe::call_facts::CallFacts;
use crate::observe::telemetry::ModelMetrics;
use crate::proxy::{Proxy, Shared};
use crate::record::recorded_call::earlier_answers;
use crate::reply::http_response;
use crate::reply::reply_writer::ReplyContext;
use crate::requests::call_target::CallTarget;
use crate::requests::caller::Caller;
use crate::retries::logged_requests::Identity;
use crate::retries::request_log::{Claim, Joined};

/// Answers a checked request.
pub(crate) async fn answer(
    proxy: &Proxy,
    mut caller: Caller,
    request: ModelRequest,
) -> Result<Response, Arc<ProxyError>> {
    let Shared { options, models, services, .. } = &*proxy.shared;
    let CalledModel { model, served, gate } = models.called(&request.model, &caller.key)?;
    // Whoever finds the model held waits first.
    if let (Some(reason), false) = (gate.refusal(), gate.state().is_paused()) {
        return Err(ProxyError::WithoutNewWeights { model: model.name, reason }.into());
    }
    let told = models.with_template_arguments(&model, &request.extra, || caller.target.owner()).await;
    let ToldModel { model, ignored } = told?;
    refuse_unknown_fields(options.unknown_fields, &request)?;
    let facts = Arc::clone(&caller.facts);
    let metrics = proxy.shared.telemetry.of_model(served);
    facts.is_of_model(&metrics, request.endpoint.operation_name);
    tell_ignored_fields(models, &metrics, &request, &ignored, &facts);
    let hosted = HostedModel { model: &model, served, gate };
    let info = limits(models, hosted, &services.shutdown, options.sampling_limits.host_patience).await;
    if let Err(error) = &info {
        // An attempt does not begin with a call that nobody answers.
        let attribution =
            attribute(&services.store, options.rollout_defaults(), &caller.target, caller.maker, false).await;
        let attempt =
            attribution.ok().flatten().map(|Attribution { rollout_id, attempt_id, .. }| (rollout_id, attempt_id));
        note(&services.store, attempt.as_ref(), error).await;
    }
    let info = info?;
    check_capabilities(&request, &info)?;
    warn_of_unseen_tools(models, &model, served, &request, &facts);
    let mut attribution =
        attribute(&services.store, options.rollout_defaults(), &caller.target, caller.maker, caller.begins_attempt)
            .await?;
    let identity = Identity {
        digest: request.digest.clone(),
        idempotency_key: caller.idempotency_key.take(),
        retries: caller.retries,
    };
    let unnamed = unnamed_conversation(proxy, &caller, &request, &model).await?;
    if let Some(unnamed) = unnamed.as_ref().filter(|_| !proxy.shared.session_requests.knows(&identity)) {
        attribution = session_search(proxy).find(unnamed, &identity).await.map_err(ProxyError::from)?;
    }
    if let Some(Attribution { rollout_id, attempt_id, .. }) = &attribution {
        facts.attempt.get_or_init(|| (rollout_id.clone(), attempt_id.clone()));
    }
    let is_attributed = caller.target.named_rollout().is_some();
    let token_ids = request.return_token_ids || (is_attributed && options.token_ids_on_attributed_path);
    let memory = match &attribution {
        Some(attribution) => {
            Some(services.memories.of(&services.store, models, attribution).await.map_err(ProxyError::from)?)
        }
        None => None,
    };
    let log = Arc::clone(memory.as_ref().map_or(&proxy.shared.session_requests, |memory| &memory.requests));
    let reply_id = format!("{}{}", request.endpoint.id_prefix, uuid::Uuid::now_v7().simple());
    let answered = Answered { model: &model, token_ids, keep_alive: options.keep_alive };
    let choices = request.options.choices;
    let (earlier, mut open) = match log.claim(identity, reply_id, now() as u64).await? {
        Claim::Join(joined) => {
            metrics.joined.increment(1);
            return respond(request, answered, joined, facts).await;
        }
        Claim::New(open) => (Vec::new(), open),
        Claim::Replay(open) => {
            let earlier = earlier_answers(&services.store, &open.request.reply_id, choices).await;
            (earlier.map_err(ProxyError::from)?, open)
        }
    };
    let Some(listener) = open.listener.take() else { return Err(ProxyError::broken_off().into()) };
    let planner = Planner {
        rules: &proxy.shared.planning,
        attribution,
        unnamed,
        memory,
        request: &request,
        model: &model,
        gate,
        info: &info,
        metrics: &metrics,
        facts: &facts,
        maker: caller.maker,
        trainable: caller.trainable,
    };
    let is_new = earlier.is_empty();
    // What was sampled before has its prompt.
    let placed = match earlier.iter().any(Option::is_some) {
        true => Ok(None),
        false => placed(proxy, &caller, &planner).await.map(Some),
    };
    let plan = match placed {
        Ok(placed) => {
            let plan = || planner.plan(&open.request, earlier, placed);
            caller.size.work(&proxy.shared.large_requests, plan).await?
        }
        Err(error) => Err(error),
    };
    if let Err(error) = &plan {
        note(&services.store, facts.attempt.get(), error).await;
    }
    let plan = plan?;
    if !is_new {
        let is_whole = plan.calls.iter().all(|call| call.ended_earlier().is_some());
        if is_whole { &metrics.replayed } else { &metrics.resumed }.increment(1);
    }
    if let Some(call) = plan.calls.first() {
        open.request.attempt.get_or_init(|| call.owner.names());
    }
    open.prepared(&plan.prompt);
    let joined = Joined { request: Arc::clone(&open.request), prompt: plan.prompt, listener };
    start(services, open, plan.calls, caller.in_flight);
    respond(request, answered, joined, facts).await
}

/// The prompt of a request that is answered for the first time.
async fn placed(proxy: &Proxy, caller: &Caller, planner: &Planner<'_>) -> Result<PlacedPrompt, ProxyError> {
    let policy = planner.rules.continuation;
    let (request, renderer, memory) = (planner.request, &planner.model.renderer, &planner.memory);
    let placed = match &request.prompt {
        Prompt::Messages(_) => {
            let (prompt, renderer, memory) = (request.prompt.clone(), Arc::clone(renderer), memory.clone());
            let render = move || placed_prompt(&prompt, &*renderer, memory.as_deref(), policy);
            caller.render(&proxy.shared.templates, render).await?
        }
        prompt @ (Prompt::Text { .. } | Prompt::Tokens(_)) => {
            let encode = || placed_prompt(prompt, &**renderer, memory.as_deref(), policy);
            caller.size.work(&proxy.shared.large_requests, encode).await?
        }
    };
    placed.map_err(|error| error.about_prompt(request.endpoint.prompt_field))
}

/// The conversation of a request that names neither a rollout nor a session, if such ones are recognised by content.
async fn unnamed_conversation(
    proxy: &Proxy,
    caller: &Caller,
    request: &ModelRequest,
    model: &SampledModel,
) -> Result<Option<UnnamedConversation>, ProxyError> {
    let Shared { options, large_requests, .. } = &*proxy.shared;
    match (&caller.target, &request.prompt) {
        (CallTarget::Unnamed, Prompt::Messages(conversation)) if !options.conversation_gap.is_zero() => {
            let key = caller.sent_key.as_deref();
            let unnamed = || UnnamedConversation::new(&conversation.messages, &model.name, key);
            caller.size.work(large_requests, unnamed).await.map(Some)
        }
        _ => Ok(None),
    }
}

fn session_search(proxy: &Proxy) -> SessionSearch<'_> {
    let Shared { options, models, services, .. } = &*proxy.shared;
    let CallServices { store, memories, .. } = &**services;
    let logs = SessionLogs::OfAttempts { models, memories };
    SessionSearch { store, logs, seed: options.seed, gap: options.conversation_gap }
}

/// A model, and the served one whose host samples it.
struct HostedModel<'a> {
    model: &'a SampledModel,
    served: &'a str,
    gate: &'a Gate,
}

/// The limits of a model's host. Where it is away, those that it told last; one that was never there, or that cannot report
/// them yet while the model is paused, may come up: the call waits.
async fn limits(
    models: &ServedModels,
    hosted: HostedModel<'_>,
    shutdown: &Shutdown,
    host_patience: Duration,
) -> Result<SamplerInfo, ProxyError> {
    let HostedModel { model, served, gate } = hosted;
    let mut cut = shutdown.cut();
    let mut patience = Patience::new(host_patience);
    loop {
        let error = match model.sampler.info().await {
            Ok(info) => {
                models.told_limits(served, &info);
                return Ok(info);
            }
            Err(error) => error,
        };
        if gate.state().is_paused() {
            tracing::debug!(model = model.name, %error, "a held model's host does not tell its limits");
            break;
        }
        let error = error.into();
        if !is_away(&error) {
            return Err(error);
        }
        if let Some(info) = models.last_limits(served) {
            return Ok(info);
        }
        let Some(at) = patience.next() else { return Err(error) };
        tokio::select! {
            biased;
            Ok(_) = cut.wait_for(|cut| *cut) => return Err(Refused::ShuttingDown.into()),
            () = tokio::time::sleep_until(at) => {}
        }
    }
    tokio::select! {
        biased;
        Ok(_) = cut.wait_for(|cut| *cut) => return Err(Refused::ShuttingDown.into()),
        // It goes in later, like others.
        inside = gate.enter() => drop(inside),
    }
    Ok(model.sampler.info().await?)
}

/// Who answers a request, and how its answers are handed over.
struct Answered<'a> {
    model: &'a SampledModel,
    token_ids: bool,
    keep_alive: Duration,
}

/// Sends the answers to a listener.
async fn respond(
    request: ModelRequest,
    answered: Answered<'_>,
    joined: Joined,
    facts: Arc<CallFacts>,
) -> Result<Response, Arc<ProxyError>> {
    let Answered { model, token_ids, keep_alive } = answered;
    let choices = request.options.choices;
    facts.prompt_tokens.get_or_init(|| joined.prompt.len());
    facts.is_answered_in(&joined.request.attempt);
    let writer = request.reply.writer(ReplyContext {
        id: joined.request.reply_id.clone(),
        created: joined.request.created,
        tokenizer: Arc::clone(model.renderer.tokenizer()),
        model: model.name.clone(),
        prompt: joined.prompt,
        logprobs: request.options.logprobs || token_ids,
        token_ids,
        choices,
    });
    match request.stream {
        true => http_response::stream(joined.listener, writer, choices, keep_alive, facts).await,
        false => http_response::whole(joined.listener, writer, choices, &facts).await,
    }
}

/// Refuses fields that are not known where that is configured.
fn refuse_unknown_fields(unknown_fields: UnknownFields, request: &ModelRequest) -> Result<(), ProxyError> {
    match (unknown_fields, request.left_out.unknown.first()) {
        (UnknownFields::Refuse, Some(field)) => Err(ProxyError::invalid(field, format!("{field} is not known here"))),
        _ => Ok(()),
    }
}

/// Tells the client, the metrics and the log which fields have no effect: those that are not known, and wishes that the
/// model's template has no variable for.
fn tell_ignored_fields(
    models: &ServedModels,
    metrics: &ModelMetrics,
    request: &ModelRequest,
    wishes: &[&'static str],
    facts: &CallFacts,
) {
    let LeftOut { hints, unknown } = &request.left_out;
    let ignored = wishes.iter().copied().chain(hints.iter().chain(unknown).map(String::as_str));
    for field in ignored {
        metrics.ignored_fields.increment(1);
        let model = &metrics.name;
        if models.is_first_ignored(model, field) {
            tracing::info!(model, field, "a field of requests has no effect on this model's answers, and is ignored");
        }
        facts.ignore(field);
    }
}

/// Warns the client and the log of tools that the model is not shown.
fn warn_of_unseen_tools(
    models: &ServedModels,
    model: &SampledModel,
    served: &str,
    request: &ModelRequest,
    facts: &CallFacts,
) {
    if request.unseen_tools(&*model.renderer) == 0 {
        return;
    }
    let warning = unseen_tools(&model.name);
    if models.is_first_warning_of_tools(served) {
        tracing::warn!("a request declares tools: {warning}");
    }
    facts.warn(warning);
}

/// The warning for a model whose template leaves tools out.
pub fn unseen_tools(model: &str) -> String {
    format!(
        "the template of the model `{model}` shows no tools, so the model does not hear of those that a request declares: \
         serve it with tools = \"preamble\" to tell it of them in the system message"
    )
}

/// Refuses by name what the model's host cannot do.
fn check_capabilities(request: &ModelRequest, info: &SamplerInfo) -> Result<(), ProxyError> {
    let options = &request.options;
    match info.capabilities.missing(&options.sampling, options.top_logprobs) {
        None => Ok(()),
        Some(field) => Err(ProxyError::invalid(field, format!("{field} is not supported by this model's host"))),
    }
}
