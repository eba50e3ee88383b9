//! A generation as the event that the gateway records of a model call.

use fulgurite_store::message_attributes::{CallMessages, messages_of};
use fulgurite_types::{Generation, Object, Span, StopReason};
use serde_json::{Map, Value, json};

/// Request, response and how the call went. Of a call whose sampler failed in the middle, the response holds what had
/// been sampled, beside the error; which HTTP status its client got is not known.
pub(super) fn data(span: &Span, generation: &Generation) -> Value {
    let version = generation.weights_versions.last().map(|weights| weights.version);
    let response = response(span, generation);
    let is_failed = generation.stop_reason == StopReason::Error;
    json!({
        "model": generation.model,
        "model_version": version,
        "request": request(span, generation),
        "server": {"model": generation.model, "endpoint": span.attributes.get("fulgurite.upstream.url"), "version": version},
        "latency_ms": (generation.end_time - generation.start_time) * 1000.0,
        "http_status": (!is_failed).then_some(200),
        "status": if is_failed { "error" } else { "ok" },
        "retry_count": 0,
        "usage": response["usage"],
        "finish_reason": response["choices"][0]["finish_reason"],
        "response": response,
    })
}

fn request(span: &Span, generation: &Generation) -> Value {
    let mut request = match unflatten(&span.attributes, "gen_ai.request") {
        Some(Value::Object(request)) => request,
        _ => Map::new(),
    };
    request.insert("model".to_owned(), json!(generation.model));
    // Messages and tools as they were sent, where they can be told; those of other tracers as far as they say.
    request.shift_remove("functions");
    match messages_of(&span.attributes) {
        Ok(CallMessages { messages, tools, .. }) => {
            let lists = [("messages", json!(messages)), ("tools", json!(tools))];
            let given = lists.into_iter().filter(|(_, list)| list.as_array().is_some_and(|list| !list.is_empty()));
            request.extend(given.map(|(field, list)| (field.to_owned(), list)));
        }
        Err(_) => {
            let messages = unflatten(&span.attributes, "gen_ai.prompt");
            request.extend(messages.map(|messages| ("messages".to_owned(), messages)));
        }
    }
    Value::Object(request)
}

fn response(span: &Span, generation: &Generation) -> Value {
    let completion = unflatten(&span.attributes, "gen_ai.completion").unwrap_or_default();
    let mut message = completion.get(0).and_then(Value::as_object).cloned().unwrap_or_default();
    let finish_reason = message.remove("finish_reason").unwrap_or_else(|| json!(generation.stop_reason));
    let message = match messages_of(&span.attributes) {
        Ok(CallMessages { reply: Some(reply), .. }) => json!(reply),
        _ => Value::Object(message),
    };
    let logprobs = span.attributes.get("logprobs.content").and_then(Value::as_str);
    let logprobs = logprobs.and_then(|text| serde_json::from_str::<Value>(text).ok());
    // As the sampler counts them: of a call that was passed on, its tokens are not known here.
    let count = |key: &str, known: usize| span.attributes.get(key).and_then(Value::as_u64).unwrap_or(known as u64);
    let prompt = count("gen_ai.usage.input_tokens", generation.prompt_tokens.len());
    let sampled = count("gen_ai.usage.output_tokens", generation.sampled_tokens.len());
    let mut response = json!({
        "id": generation.generation_id,
        "object": "chat.completion",
        "created": generation.end_time as u64,
        "model": generation.model,
        "choices": [{
            "index": 0,
            "message": message,
            "finish_reason": finish_reason,
            "logprobs": logprobs.map(|content| json!({ "content": content })),
            "token_ids": generation.sampled_tokens,
        }],
        "usage": {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled},
        "prompt_token_ids": generation.prompt_tokens,
    });
    if generation.stop_reason == StopReason::Error {
        response["error"] = json!({"message": "the model host failed in the middle of the answer"});
    }
    response
}

/// What the attributes `prefix.a.0.b` say, nested: an object whose keys are the numbers from 0 is a list. `None` if
/// there are no such attributes.
fn unflatten(attributes: &Object, prefix: &str) -> Option<Value> {
    let mut root = Map::new();
    for (key, value) in attributes {
        if let Some(path) = key.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')) {
            insert(&mut root, path, value);
        }
    }
    (!root.is_empty()).then(|| nest(Value::Object(root)))
}

fn insert(object: &mut Object, path: &str, value: &Value) {
    let Some((step, rest)) = path.split_once('.') else {
        object.insert(path.to_owned(), value.clone());
        return;
    };
    let inner = object.entry(step).or_insert_with(|| json!({}));
    if !inner.is_object() {
        // Both `a` and `a.b` are there; the deeper one holds more.
        *inner = json!({});
    }
    if let Value::Object(inner) = inner {
        insert(inner, rest, value);
    }
}

fn nest(value: Value) -> Value {
    match value {
        Value::Object(fields)
            if (0..fields.len()).all(|index| fields.contains_key(&index.to_string())) && !fields.is_empty() =>
        {
            let mut fields = fields;
            (0..fields.len()).filter_map(|index| fields.swap_remove(&index.to_string())).map(nest).collect()
        }
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(key, value)| (key, nest(value))).collect()),
        value => value,
    }
}
