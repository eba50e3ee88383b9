use std::sync::Arc;

use fulgurite_store::{NewCall, RecordedConversation, Store, StoreError};
use fulgurite_types::{
    BranchReason, Defect, IncomingSpan, Ingested, NewGeneration, Object, RecordedSampling, Span, SpanStatus,
    StatusCode, StopReason, exact_json,
};
use serde_json::{Map, Value, json};

use super::forwarded_call::ForwardedCall;
use super::route::Conversation;
use super::upstream_answer::{Answer, Choice, Tokens};
use crate::attribute_names::{IDEMPOTENCY_KEY, REQUEST_EXTRA};
use crate::error::ProxyError;
use crate::record::delivery::Recorded;
use crate::record::message_attributes::{add_message, add_messages, add_tools, message_parts};
use fulgurite_types::time::now;

/// Limit of a recorded error message, in characters.
const MESSAGE_LIMIT: usize = 500;

/// How an answer came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// The client hung up; what had come by then is recorded.
    ClientDisconnected,
    /// The upstream broke off.
    Broken,
}

/// Records an answer, durable on return.
pub(super) async fn record_answer(
    store: &Store,
    call: &ForwardedCall,
    host: &str,
    answer: Answer,
    end: End,
) -> Result<Option<Recorded>, ProxyError> {
    if !call.route.is_recorded() {
        return Ok(None);
    }
    let request = call.route.conversation(&call.fields, &call.exact);
    let is_generation = call.route.is_generation();
    let conversation = recorded_conversation(&request, &answer).filter(|_| is_generation);
    let mut attributes = request_attributes(call, &request);
    if conversation.is_none() {
        add_conversation(&mut attributes, &request);
    }
    attributes.insert("fulgurite.upstream.url".to_owned(), json!(host));
    let stop_reason = stop_reason(&answer, end);
    add_answer(&mut attributes, &answer, conversation.is_some());
    if !is_generation {
        let status = SpanStatus { status_code: StatusCode::Ok, description: None, extra: Object::new() };
        record_span(store, call, attributes, status).await?;
        return Ok(None);
    }
    let owner = call.owner.ids(store).await?;
    let own_id = format!("upstream_{}", uuid::Uuid::now_v7().simple());
    let ended = call.unnamed.clone().zip(answer.choices.first());
    let ended = ended.filter(|_| end == End::Whole && stop_reason.is_whole());
    let conversation_digest = ended.map(|(unnamed, choice)| unnamed.with_answer(&choice.message));
    let tokens = answer.usage.input.unwrap_or_default() + answer.usage.output.unwrap_or_default();
    let client_disconnected = end == End::ClientDisconnected;
    let generation = NewGeneration {
        generation_id: answer.id.unwrap_or_else(|| own_id.clone()),
        client_disconnected,
        ..generation(call, owner, attributes, answer.tokens, stop_reason)
    };
    let recorded = NewCall { generation, conversation, conversation_digest };
    let generation_id = record_under_free_id(store, recorded, own_id).await?;
    if let Some(admission) = &call.admission {
        admission.is_recorded(tokens);
    }
    Ok(Some(Recorded { generation_id, client_disconnected }))
}

/// The record of a generation that ends now, without an id.
fn generation(
    call: &ForwardedCall,
    (rollout_id, attempt_id): (String, String),
    attributes: Map<String, Value>,
    tokens: Option<Tokens>,
    stop_reason: StopReason,
) -> NewGeneration {
    let Tokens { prompt, sampled, logprobs } =
        tokens.unwrap_or_else(|| Tokens { prompt: Vec::new(), sampled: Vec::new(), logprobs: None });
    NewGeneration {
        generation_id: String::new(),
        rollout_id,
        attempt_id,
        name: call.route.span_name().to_owned(),
        trace_id: uuid::Uuid::now_v7().simple().to_string(),
        span_id: span_id(),
        start_time: call.start_time,
        end_time: now(),
        attributes,
        model: call.model.name.clone(),
        prompt_tokens: prompt,
        sampled_tokens: sampled,
        logprobs,
        stop_reason,
        weights_versions: Vec::new(),
        sampling: sampling(&call.fields),
        seed: call.fields.get("seed").and_then(Value::as_u64).unwrap_or_default(),
        renderer: String::new(),
        tokenizer: String::new(),
        request_digest: call.digest.clone(),
        branch_reason: Some(BranchReason::Upstream),
        client_disconnected: false,
        defect: Some(Defect::Upstream),
    }
}

/// Records a call under the id that its upstream gave it or, where another call has that, under our own; gives the id.
async fn record_under_free_id(store: &Store, recorded: NewCall, own_id: String) -> Result<String, StoreError> {
    match store.recording().record(recorded.clone()).await {
        // Some servers give all their answers one id.
        Err(StoreError::Conflict { kind: "generation", .. }) => {
            let generation = NewGeneration { generation_id: own_id.clone(), ..recorded.generation };
            store.recording().record(NewCall { generation, ..recorded }).await?;
            Ok(own_id)
        }
        outcome => {
            outcome?;
            Ok(recorded.generation.generation_id)
        }
    }
}

/// Records that a call of an attempt failed: `kind` is for programs, `message` for people. A call without an attempt opens
/// no session for that.
pub(super) async fn record_failure(
    store: &Store,
    call: &ForwardedCall,
    kind: &str,
    message: &str,
) -> Result<(), ProxyError> {
    if !call.route.is_recorded() || call.owner.attribution().is_none() {
        return Ok(());
    }
    let request = call.route.conversation(&call.fields, &call.exact);
    let mut attributes = request_attributes(call, &request);
    add_conversation(&mut attributes, &request);
    attributes.insert("error.type".to_owned(), json!(kind));
    let description = Some(message.chars().take(MESSAGE_LIMIT).collect());
    let status = SpanStatus { status_code: StatusCode::Error, description, extra: Object::new() };
    record_span(store, call, attributes, status).await
}

async fn record_span(
    store: &Store,
    call: &ForwardedCall,
    attributes: Object,
    status: SpanStatus,
) -> Result<(), ProxyError> {
    let (rollout_id, attempt_id) = call.owner.ids(store).await?;
    let span = Span {
        rollout_id,
        attempt_id: attempt_id.clone(),
        sequence_id: 0,
        trace_id: uuid::Uuid::now_v7().simple().to_string(),
        span_id: span_id(),
        parent_id: None,
        name: call.route.span_name().to_owned(),
        status,
        attributes,
        events: Vec::new(),
        links: Vec::new(),
        start_time: Some(call.start_time),
        end_time: Some(now()),
        context: None,
        parent: None,
        resource: Arc::default(),
        extra: Object::new(),
    };
    let incoming = IncomingSpan { span: span.clone(), sequence_id: None };
    let stored = store.spans().ingest(vec![incoming]).await?;
    match stored.as_slice() {
        [Ingested::Stored { .. }] => {
            store.recording().notify_of_span(&span);
            Ok(())
        }
        _ => Err(ProxyError::UnknownTarget { kind: "attempt", id: attempt_id }),
    }
}

/// The random half of a version 7 UUID; its first half is the time.
fn span_id() -> String {
    uuid::Uuid::now_v7().simple().to_string().split_off(16)
}

/// What the record keeps of messages, tools and the first choice; `None` without messages.
fn recorded_conversation(request: &Conversation, answer: &Answer) -> Option<RecordedConversation> {
    let mut tools = Object::new();
    add_tools(&mut tools, &request.tools);
    let prompt = RecordedConversation::new(request.messages.iter().map(message_parts).collect(), tools)?;
    let first = answer.choices.first().map(|choice| message_parts(&choice.message));
    Some(prompt.with_answer(first.unwrap_or_default()))
}

fn add_conversation(attributes: &mut Object, request: &Conversation) {
    add_messages(attributes, &request.messages);
    add_tools(attributes, &request.tools);
}

/// Attributes of the request but for its conversation. Fields without an attribute of their own are recorded unchanged.
fn request_attributes(call: &ForwardedCall, conversation: &Conversation) -> Map<String, Value> {
    let fields = &call.fields;
    let mut attributes = Map::new();
    let mut set = |key: &str, value: Value| {
        if !value.is_null() {
            attributes.insert(key.to_owned(), value);
        }
    };
    set("gen_ai.operation.name", json!(call.route.operation()));
    set("gen_ai.provider.name", json!(call.model.upstream.dialect().name()));
    set("gen_ai.request.model", json!(call.model.name));
    set("fulgurite.upstream.model", json!(call.model.upstream_name));
    for (key, names) in [
        ("gen_ai.request.temperature", &["temperature"][..]),
        ("gen_ai.request.top_p", &["top_p"]),
        ("gen_ai.request.top_k", &["top_k"]),
        ("gen_ai.request.seed", &["seed"]),
        ("gen_ai.request.choice.count", &["n"]),
        ("gen_ai.request.max_tokens", &["max_completion_tokens", "max_tokens", "max_output_tokens"]),
    ] {
        let value = names.iter().find_map(|name| fields.get(*name).filter(|value| value.is_number()));
        set(key, json!(value));
    }
    set("gen_ai.request.is_stream", json!(fields.get("stream").and_then(Value::as_bool)));
    set(IDEMPOTENCY_KEY, json!(call.idempotency_key));
    if let Some((key, places)) = call.facts.replaced_attribute() {
        set(&key, places);
    }
    let rest =
        fields.iter().filter(|(field, _)| *field != "model" && !conversation.source_fields.contains(&field.as_str()));
    let rest: Map<String, Value> = rest.map(|(field, value)| (field.clone(), value.clone())).collect();
    if !rest.is_empty() {
        set(REQUEST_EXTRA, json!(exact_json(&Value::Object(rest))));
    }
    attributes
}

/// `first_elsewhere`: the first choice's message is kept with the conversation.
fn add_answer(attributes: &mut Map<String, Value>, answer: &Answer, first_elsewhere: bool) {
    for (key, value) in [
        ("gen_ai.response.id", json!(answer.id)),
        ("gen_ai.response.model", json!(answer.model)),
        ("gen_ai.usage.input_tokens", json!(answer.usage.input)),
        ("gen_ai.usage.output_tokens", json!(answer.usage.output)),
        ("gen_ai.usage.cache_read.input_tokens", json!(answer.usage.cached)),
    ] {
        if !value.is_null() {
            attributes.insert(key.to_owned(), value);
        }
    }
    for (index, Choice { message, finish_reason }) in answer.choices.iter().enumerate() {
        let prefix = format!("gen_ai.completion.{index}");
        if let Some(reason) = finish_reason {
            attributes.insert(format!("{prefix}.finish_reason"), json!(reason));
        }
        if index > 0 || !first_elsewhere {
            add_message(attributes, &prefix, message);
        }
    }
}

/// Why the answer ended, as in the records of answers that are sampled here.
fn stop_reason(answer: &Answer, end: End) -> StopReason {
    let reason = answer.choices.first().and_then(|choice| choice.finish_reason.as_deref());
    match (end, reason) {
        (End::ClientDisconnected, _) => StopReason::ClientDisconnected,
        (End::Broken, _) => StopReason::Error,
        (End::Whole, Some("tool_calls") | None) => StopReason::Stop,
        (End::Whole, Some(reason)) => reason.into(),
    }
}

/// The sampling parameters of the request; the upstream's defaults are not known.
fn sampling(fields: &Map<String, Value>) -> RecordedSampling {
    let given = ["temperature", "top_p", "top_k"].map(|field| (field.to_owned(), json!(fields.get(field))));
    RecordedSampling(Value::Object(given.into_iter().filter(|(_, value)| !value.is_null()).collect()))
}
