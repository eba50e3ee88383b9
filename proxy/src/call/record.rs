use fulgurite_backends::SampledToken;
use fulgurite_store::NewCall;
use fulgurite_types::{Generation, NewGeneration, RecordedSampling, WeightsFrom, WeightsVersion};
use serde_json::json;

use crate::attempt::attempt_memory::AnsweredCall;
use crate::attribute_names::CACHED_TOKENS;
use crate::call::call_end::End;
use crate::call::model_call::{ModelCall, Reading};
use crate::call::sampled_answer::WholeAnswer;
use crate::error::ProxyError;
use crate::record::message_attributes::{ANSWER, add_message, message_parts};
use crate::state::call_services::CallServices;
use fulgurite_types::time::now;

/// When a call began.
pub(crate) struct CallStart {
    /// Seconds since the epoch.
    pub(crate) start_time: f64,
    /// How many tokens of its answer are recorded already, if a part is.
    pub(crate) before: Option<usize>,
}

/// Writes span and generation in one transaction, durable on return, and remembers an answer for the next call of its
/// attempt. Returns whether there was anything to write. A part that was recorded before can still be continued, however
/// its continuation ends.
pub(crate) async fn record(
    services: &CallServices,
    mut call: ModelCall,
    answer: WholeAnswer,
    end: &End,
    start: CallStart,
) -> Result<bool, ProxyError> {
    let store = &services.store;
    let has_ended = matches!(end, End::Finished(_));
    if answer.tokens.len() == answer.earlier_tokens && !has_ended {
        return Ok(false);
    }
    let end = if start.before.is_some() && !has_ended { &End::ClientDisconnected } else { end };
    let is_session = start.before.is_none() && call.owner.is_one_call();
    let owner = if is_session { call.owner.names() } else { call.owner.ids(store).await? };
    let recorded = new_call(&mut call, &answer, end, start.start_time, owner);
    if let Some(memory) = call.memory.as_ref().filter(|_| store.others_write()) {
        memory.note(&call.generation_id, true);
    }
    match start.before {
        Some(_) => store.recording().replace(recorded).await?,
        None if is_session => store.recording().record_session(recorded).await?,
        None => store.recording().record(recorded).await?,
    };
    if let Some(admission) = &call.admission {
        admission.is_recorded();
    }
    spend(&call, &answer, start.before, has_ended);
    if has_ended {
        remember(services, &call, &answer);
    }
    Ok(true)
}

/// A call's record. What only the record needs is taken out of the call.
fn new_call(
    call: &mut ModelCall,
    answer: &WholeAnswer,
    end: &End,
    start_time: f64,
    owner: (String, String),
) -> NewCall {
    let mut attributes = std::mem::take(&mut call.attributes);
    for (key, value) in [
        ("gen_ai.response.id", json!(call.generation_id)),
        ("gen_ai.response.model", json!(call.model.name)),
        ("gen_ai.usage.input_tokens", json!(call.prompt.len())),
        ("gen_ai.usage.output_tokens", json!(answer.tokens.len())),
        ("gen_ai.completion.0.finish_reason", json!(end.finish_reason(&answer.message))),
    ] {
        attributes.insert(key.to_owned(), value);
    }
    if let Some(cached) = answer.cached_tokens {
        attributes.insert(CACHED_TOKENS.to_owned(), json!(cached));
    }
    let conversation = call.conversation.take().map(|prompt| prompt.with_answer(message_parts(&answer.message)));
    if conversation.is_none() {
        add_message(&mut attributes, ANSWER, &answer.message);
    }
    let (rollout_id, attempt_id) = owner;
    let generation = NewGeneration {
        generation_id: call.generation_id.clone(),
        rollout_id,
        attempt_id,
        name: call.endpoint.span_name.to_owned(),
        trace_id: uuid::Uuid::now_v7().simple().to_string(),
        // The random half of a version 7 UUID; its first half is the time.
        span_id: uuid::Uuid::now_v7().simple().to_string().split_off(16),
        start_time,
        end_time: now(),
        attributes,
        model: call.model.name.clone(),
        prompt_tokens: call.prompt.to_vec(),
        sampled_tokens: sampled_ids(answer),
        logprobs: Some(answer.tokens.iter().map(|token| token.logprob).collect()),
        stop_reason: end.stop_reason(),
        weights_versions: weights_by_run_length(&answer.tokens),
        sampling: RecordedSampling::from(&call.sampling),
        seed: call.seed,
        renderer: call.model.renderer.name().to_owned(),
        tokenizer: call.model.renderer.tokenizer().fingerprint().to_owned(),
        request_digest: std::mem::take(&mut call.request_digest),
        branch_reason: call.branch_reason.take(),
        client_disconnected: matches!(end, End::ClientDisconnected | End::ShutDown),
        defect: call.defect.take(),
    };
    let answered = call.unnamed.take().filter(|_| generation.stop_reason.is_whole());
    let conversation_digest = answered.map(|unnamed| unnamed.with_answer(&answer.message));
    NewCall { generation, conversation, conversation_digest }
}

fn sampled_ids(answer: &WholeAnswer) -> Vec<u32> {
    answer.tokens.iter().map(|token| token.id).collect()
}

/// Takes what was sampled from the attempt's budget, if it has one.
fn spend(call: &ModelCall, answer: &WholeAnswer, before: Option<usize>, has_ended: bool) {
    let takes_from_budget = call.owner.attribution().is_some_and(|attribution| attribution.allowance.is_some());
    let Some(memory) = call.memory.as_ref().filter(|_| takes_from_budget) else { return };
    memory.spending.sampled_anew(before.unwrap_or_default(), answer.tokens.len());
    // A part that is gone on with counts once it is whole.
    if has_ended {
        memory.spending.called_tools(answer.message.tool_calls.len());
    }
}

/// Remembers an answer for the next call of its attempt.
fn remember(services: &CallServices, call: &ModelCall, answer: &WholeAnswer) {
    let (Some(memory), Reading::Message(conversation)) = (&call.memory, &call.reading) else { return };
    let answered = AnsweredCall {
        generation_id: &call.generation_id,
        messages: &conversation.messages,
        tools: &conversation.tools,
        reply: &answer.message,
        prompt: &call.prompt,
        sampled: &sampled_ids(answer),
    };
    let grown = memory.remember(call.model.renderer.fingerprint(), &answered);
    services.memories.grow(grown);
}

/// What was sampled of an earlier answer, without alternatives, which are not recorded.
pub(crate) fn sampled_tokens(earlier: &Generation) -> impl Iterator<Item = SampledToken> {
    let version = |index: usize| {
        let from = earlier.weights_versions.iter().rev().find(|from| from.first_token <= index);
        from.map(|from| WeightsVersion(from.version))
    };
    earlier.sampled_tokens.iter().enumerate().map(move |(index, id)| SampledToken {
        id: *id,
        logprob: earlier.logprobs.as_ref().and_then(|logprobs| logprobs.get(index)).copied().unwrap_or(f32::NAN),
        weights_version: version(index),
        top_logprobs: Vec::new(),
    })
}

/// Which weights sampled which tokens: an entry where they change. None at all if they are not known of every token.
fn weights_by_run_length(tokens: &[SampledToken]) -> Vec<WeightsFrom> {
    let mut weights: Vec<WeightsFrom> = Vec::new();
    for (first_token, token) in tokens.iter().enumerate() {
        let Some(WeightsVersion(version)) = token.weights_version else { return Vec::new() };
        if weights.last().is_none_or(|last| last.version != version) {
            weights.push(WeightsFrom { version, first_token });
        }
    }
    weights
}
