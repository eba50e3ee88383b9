use std::sync::Arc;

use crate::attempt::notes::note;
use crate::call::admit::AdmittedRequest;
use crate::call::model_call::ModelCall;
use crate::call::place::PlacedRequest;
use crate::call::planning::{Planner, placed_prompt};
use crate::call::respond::AnsweredRequest;
use crate::error::ProxyError;
use crate::models::pause_state::InFlight;
use crate::parts::Parts;
use crate::placed_prompt::PlacedPrompt;
use crate::requests::caller::Caller;
use crate::requests::model_request::Prompt;
use crate::retries::request_log::{Joined, OpenRequest};

/// A request with the calls that answer it.
pub(crate) struct PlannedRequest {
    pub(crate) open: OpenRequest,
    /// One for each answer.
    pub(crate) calls: Vec<ModelCall>,
    /// If the gateway counts it.
    pub(crate) in_flight: Option<InFlight>,
    pub(crate) answered: AnsweredRequest,
}

/// Decides the prompt of a request, and how each of its answers is sampled.
pub(crate) async fn plan(parts: &Parts, placed: PlacedRequest<'_>) -> Result<PlannedRequest, ProxyError> {
    let PlacedRequest { admitted, token_ids, attribution, unnamed, memory, earlier, open, listener } = placed;
    let AdmittedRequest { caller, request, model, gate, info, metrics } = admitted;
    let facts = Arc::clone(&caller.facts);
    let planner = Planner {
        rules: &parts.planning,
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
        false => prompt(parts, &caller, &planner).await.map(Some),
    };
    if let (Ok(Some(PlacedPrompt { continues: Some(continued), .. })), Some(memory)) = (&placed, &planner.memory) {
        memory.is_continued(continued);
    }
    let plan = match placed {
        Ok(placed) => {
            let plan = || planner.plan(&open.request, earlier, placed);
            caller.size.work(&parts.large_requests, plan).await?
        }
        Err(error) => Err(error),
    };
    if let Err(error) = &plan {
        note(&parts.services.store, facts.attempt.get(), error).await;
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
    let answered = AnsweredRequest { request, model, token_ids, joined, facts };
    Ok(PlannedRequest { open, calls: plan.calls, in_flight: caller.in_flight, answered })
}

/// The prompt of a request that is answered for the first time.
async fn prompt(parts: &Parts, caller: &Caller, planner: &Planner<'_>) -> Result<PlacedPrompt, ProxyError> {
    let policy = planner.rules.continuation;
    let (request, renderer, memory) = (planner.request, &planner.model.renderer, &planner.memory);
    let placed = match &request.prompt {
        Prompt::Messages(_) => {
            let (prompt, renderer, memory) = (request.prompt.clone(), Arc::clone(renderer), memory.clone());
            let render = move || placed_prompt(&prompt, &*renderer, memory.as_deref(), policy);
            caller.render(&parts.templates, render).await?
        }
        prompt @ (Prompt::Text { .. } | Prompt::Tokens(_)) => {
            let encode = || placed_prompt(prompt, &**renderer, memory.as_deref(), policy);
            caller.size.work(&parts.large_requests, encode).await?
        }
    };
    placed.map_err(|error| error.about_prompt(request.endpoint.prompt_field))
}
