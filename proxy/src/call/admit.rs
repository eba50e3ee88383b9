use std::sync::Arc;
use std::time::Duration;

use fulgurite_api::Refused;
use fulgurite_backends::SamplerInfo;

use crate::attempt::attribution::{Attribution, attribute};
use crate::attempt::notes::note;
use crate::call::sampling::{Patience, is_away};
use crate::error::ProxyError;
use crate::models::gate::Gate;
use crate::models::served_model::SampledModel;
use crate::models::served_models::{CalledModel, ServedModels};
use crate::models::template_arguments::AdaptedModel;
use crate::observe::call_facts::CallFacts;
use crate::observe::telemetry::ModelMetrics;
use crate::parts::Parts;
use crate::requests::caller::Caller;
use crate::requests::left_out::{LeftOut, UnknownFields};
use crate::requests::model_request::ModelRequest;
use crate::state::shutdown::Shutdown;

/// A request that a model can answer.
pub(crate) struct AdmittedRequest<'p> {
    pub(crate) caller: Caller,
    pub(crate) request: ModelRequest,
    /// With what the request has for its template.
    pub(crate) model: SampledModel,
    /// What holds the model's calls.
    pub(crate) gate: &'p Gate,
    /// The limits of its host.
    pub(crate) info: SamplerInfo,
    pub(crate) metrics: Arc<ModelMetrics>,
}

/// Finds the model of a checked request, and lets the request in if that can answer it.
pub(crate) async fn admit(
    parts: &Parts,
    caller: Caller,
    request: ModelRequest,
) -> Result<AdmittedRequest<'_>, ProxyError> {
    let Parts { options, models, services, .. } = parts;
    let CalledModel { model, served, gate } = models.called(&request.model, &caller.key)?;
    // Whoever finds the model held waits first.
    if let (Some(reason), false) = (gate.refusal(), gate.state().is_paused()) {
        return Err(ProxyError::WithoutNewWeights { model: model.name, reason });
    }
    let adapted = models.with_template_arguments(&model, &request.extra, || caller.target.owner()).await;
    let AdaptedModel { model, ignored } = adapted?;
    refuse_unknown_fields(options.unknown_fields, &request)?;
    let metrics = parts.telemetry.of_model(served);
    caller.facts.is_of_model(&metrics, request.endpoint.operation_name);
    tell_ignored_fields(models, &metrics, &request, &ignored, &caller.facts);
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
    warn_of_unseen_tools(models, &model, served, &request, &caller.facts);
    Ok(AdmittedRequest { caller, request, model, gate, info, metrics })
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
                models.note_limits(served, &info);
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
    unheeded: &[&'static str],
    facts: &CallFacts,
) {
    let LeftOut { hints, unknown } = &request.left_out;
    let ignored = unheeded.iter().copied().chain(hints.iter().chain(unknown).map(String::as_str));
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
