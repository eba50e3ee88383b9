use fulgurite_backends::SampledToken;
use fulgurite_store::NewCall;
use fulgurite_types::{Generation, NewGeneration, RecordedSampling, WeightsFrom, WeightsVersion};
use serde_json::json;

use crate::attempt::attempt_memory::AnsweredCall;
use crate::attribute_names::CACHED_TOKENS;
use crate::call::call_end::End;
use crate::call::model_call::{Call, Reading};
use crate::call::sampled_answer::WholeAnswer;
use crate::clock::now;
use crate::error::ProxyError;
use crate::record::message_attributes::{ANSWER, add_message, message_parts};
use crate::state::call_services::CallServices;

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
    call: Call,
    answer: WholeAnswer,
    end: &End,
    start: CallStart,
) -> Result<bool, ProxyError> {
    let CallServices { store, memories, .. } = services;
    let has_ended = matches!(end, End::Finished(_));
    if answer.tokens.len() == answer.earlier_tokens && !has_ended {
        return Ok(false);
    }
    let end = if start.before.is_some() && !has_ended { &End::ClientDisconnected } else { end };
    let sampled_tokens: Vec<u32> = answer.tokens.iter().map(|token| token.id).collect();
    let is_session = start.before.is_none() && call.owner.is_one_call();
    let (rollout_id, attempt_id) = if is_session { call.owner.names() } else { call.owner.ids(store).await? };
    let mut attributes = call.attributes;
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
    let conversation = call.conversation.map(|prompt| prompt.with_answer(message_parts(&answer.message)));
    if conversation.is_none() {
        add_message(&mut attributes, ANSWER, &answer.message);
    }
    let generation = NewGeneration {
        generation_id: call.generation_id.clone(),
        rollout_id,
        attempt_id,
        name: call.endpoint.span_name.to_owned(),
        trace_id: uuid::Uuid::now_v7().simple().to_string(),
        // The random half of a version 7 UUID; its first half is the time.
        span_id: uuid::Uuid::now_v7().simple().to_string().split_off(16),
        start_time: start.start_time,
        end_time: now(),
        attributes,
        model: call.model.name,
        prompt_tokens: call.prompt.to_vec(),
        sampled_tokens: sampled_tokens.clone(),
        logprobs: Some(answer.tokens.iter().map(|token| token.logprob).collect()),
        stop_reason: end.stop_reason(),
        weights_versions: weights_by_run_length(&answer.tokens),
        sampling: RecordedSampling::from(&call.sampling),
        seed: call.seed,
        renderer: call.model.renderer.name().to_owned(),
        tokenizer: call.model.renderer.tokenizer().fingerprint().to_owned(),
        request_digest: call.request_digest,
        branch_reason: call.branch_reason,
        client_disconnected: matches!(end, End::ClientDisconnected | End::ShutDown),
        defect: call.defect,
    };
    if let Some(memory) = call.memory.as_ref().filter(|_| store.others_write()) {
        memory.note(&call.generation_id, true);
    }
    let answered = call.unnamed.filter(|_| generation.stop_reason.is_whole());
    let conversation_digest = answered.map(|unnamed| unnamed.with_answer(&answer.message));
    let recorded = NewCall { generation, conversation, conversation_digest };
    match start.before {
        Some(_) => store.replace_generation(recorded).await?,
        None if is_session => store.record_session(recorded).await?,
        None => store.record_generation(recorded).await?,
    };
    if let Some(admission) = &call.admission {
        admission.is_recorded();
    }
    let takes_from_budget = call.owner.attribution().is_some_and(|attribution| attribution.allowance.is_some());
    if let Some(memory) = call.memory.as_ref().filter(|_| takes_from_budget) {
        memory.spending.sampled_anew(start.before.unwrap_or_default(), sampled_tokens.len());
        // A part that is gone on with counts once it is whole.
        if has_ended {
            memory.spending.called_tools(answer.message.tool_calls.len());
        }
    }
    if let (Some(memory), Reading::Message(conversation), true) = (&call.memory, &call.reading, has_ended) {
        let answered = AnsweredCall {
            generation_id: &call.generation_id,
            messages: &conversation.messages,
            tools: &conversation.tools,
            reply: &answer.message,
            prompt: &call.prompt,
            sampled: &sampled_tokens,
        };
        let grown = memory.remember(call.model.renderer.fingerprint(), &answered);
        memories.grow(grown);
    }
    Ok(true)
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
