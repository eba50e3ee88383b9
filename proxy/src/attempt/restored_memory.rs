//! What the store has of an attempt's calls, taken into memory.

use std::collections::HashSet;

use fulgurite_store::{Store, StoreError};
use fulgurite_types::{Defect, StopReason};

use crate::attempt::attempt_memory::{AnsweredCall, AttemptMemory, RecordedRequest};
use crate::attempt::budget::Spending;
use crate::models::served_models::ServedModels;
use crate::record::recorded_call::{RecordedCall, reply_id};
use crate::record::recorded_calls::{recorded_call, recorded_calls};
use crate::retries::logged_requests::Identity;

/// An attempt as the store has it.
pub(crate) async fn restore(
    store: &Store,
    models: &ServedModels,
    rollout_id: &str,
    attempt_id: &str,
) -> Result<AttemptMemory, StoreError> {
    let memory = AttemptMemory::new();
    let listed = match store.others_write() {
        true => Some(store.generations().after(rollout_id, attempt_id, 0).await?),
        false => None,
    };
    let mut calls = recorded_calls(store, rollout_id, attempt_id).await?;
    if let Some(listed) = listed {
        listed.iter().for_each(|(_, generation_id)| memory.note(generation_id, false));
        *memory.known_up_to.lock().await = listed.last().map_or(0, |(place, _)| *place);
        // What has come since is caught up with.
        calls.retain(|call| memory.is_own(&call.generation.generation_id).is_some());
    }
    memory.note_last_recorded(calls.last().and_then(possibly_unseen));
    // Forwarded calls count against the budget, but cannot be continued here.
    let (forwarded, calls): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_forwarded);
    // The answers to one request share its reply's id.
    let failed: HashSet<&str> = calls.iter().filter(|call| has_failed(call)).map(reply_id).collect();
    for call in &calls {
        restore_call(models, &memory, call, failed.contains(reply_id(call))).await;
    }
    for RecordedCall { usage: (prompt_tokens, sampled_tokens), .. } in forwarded {
        memory.spending.call(prompt_tokens as usize);
        memory.spending.sampled(sampled_tokens as usize);
    }
    Ok(memory)
}

/// Reads what other servers have recorded of an attempt since the last time; returns by how many bytes the memory grew.
/// Calls that they forward count there.
pub(crate) async fn catch_up(
    store: &Store,
    models: &ServedModels,
    memory: &AttemptMemory,
    rollout_id: &str,
    attempt_id: &str,
) -> Result<usize, StoreError> {
    let mut known_up_to = memory.known_up_to.lock().await;
    let mut grown = 0;
    for (place, generation_id) in store.generations().after(rollout_id, attempt_id, *known_up_to).await? {
        let is_own = memory.is_own(&generation_id);
        if is_own != Some(true)
            && let Some(call) = recorded_call(store, &generation_id).await?
            && !is_forwarded(&call)
        {
            memory.note(&generation_id, false);
            memory.note_last_recorded(possibly_unseen(&call));
            grown += match is_own {
                None => restore_call(models, memory, &call, has_failed(&call)).await,
                // Its answer has been continued since.
                Some(_) => restore_answer(models, memory, &call).await,
            };
        }
        *known_up_to = place;
    }
    Ok(grown)
}

/// `has_failed`: its request has no answer. Returns by how many bytes the memory grew.
async fn restore_call(models: &ServedModels, memory: &AttemptMemory, call: &RecordedCall, has_failed: bool) -> usize {
    let generation = &call.generation;
    if generation.defect != Some(Defect::auxiliary_by_grader()) {
        count(&memory.spending, call);
    }
    if is_first_answer(call) {
        memory.note_seed(generation.seed);
        let identity = Identity {
            digest: generation.request_digest.clone(),
            idempotency_key: call.idempotency_key.clone(),
            retries: 0,
        };
        let created = generation.start_time as u64;
        if !has_failed {
            memory.requests.restore(
                identity,
                generation.generation_id.clone(),
                created,
                generation.client_disconnected,
            );
        }
    }
    restore_answer(models, memory, call).await
}

/// Counts in what a call of the agent has taken from the attempt's budget.
fn count(spending: &Spending, call: &RecordedCall) {
    let generation = &call.generation;
    spending.sampled(generation.sampled_tokens.len());
    if let Some(reply) = call.reply.as_ref().filter(|_| generation.stop_reason.is_whole()) {
        spending.called_tools(reply.tool_calls.len());
    }
    if is_first_answer(call) {
        spending.call(generation.prompt_tokens.len());
    }
}

/// Remembers an answer that can be continued here. Returns by how many bytes the memory grew.
async fn restore_answer(models: &ServedModels, memory: &AttemptMemory, call: &RecordedCall) -> usize {
    let RecordedCall { generation, messages, tools, reply, .. } = call;
    let model = models.recorded(&generation.model).filter(|model| {
        // Tokens of another format or tokenizer cannot be continued.
        model.renderer.name() == generation.renderer && model.renderer.tokenizer().fingerprint() == generation.tokenizer
    });
    let adapted = match model {
        Some(model) => {
            let owner = || format!("{}/{}", generation.rollout_id, generation.attempt_id);
            models.with_template_arguments(&model, &call.request_extra, owner).await.map(|adapted| Some(adapted.model))
        }
        None => Ok(None),
    };
    let model = adapted.unwrap_or_else(|error| {
        tracing::warn!(generation_id = generation.generation_id, %error, "what was told to a model's template cannot be again");
        None
    });
    let is_answer = generation.stop_reason.is_whole();
    if let (Some(model), Some(reply), true, false) = (model, reply, is_answer, messages.is_empty()) {
        let call = AnsweredCall {
            generation_id: &generation.generation_id,
            messages,
            tools,
            reply,
            prompt: &generation.prompt_tokens,
            sampled: &generation.sampled_tokens,
        };
        return memory.remember(model.renderer.fingerprint(), &call);
    }
    0
}

/// The request of a recorded call, if nothing shows that its client has not got the answer.
fn possibly_unseen(call: &RecordedCall) -> Option<RecordedRequest> {
    let RecordedCall { generation, .. } = call;
    let is_answer = !is_forwarded(call) && generation.stop_reason.is_whole() && !generation.client_disconnected;
    is_answer
        .then(|| RecordedRequest { digest: generation.request_digest.clone(), reply_id: reply_id(call).to_owned() })
}

/// Forwarded calls count against the budget, but cannot be continued here.
fn is_forwarded(call: &RecordedCall) -> bool {
    call.generation.defect == Some(Defect::Upstream)
}

fn is_first_answer(call: &RecordedCall) -> bool {
    call.choice == 0
}

fn has_failed(call: &RecordedCall) -> bool {
    call.generation.stop_reason == StopReason::Error
}
