use fulgurite_types::exact_json;
use serde_json::{Map, Value, json};

use crate::reply::call_event::Finished;
use crate::reply::event_text::write_named_event;

/// The fields of a request that its response repeats.
const ECHOED: [&str; 16] = [
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
];

/// The status of a response.
pub(super) enum ResponseStatus {
    InProgress,
    Completed,
    /// The answer reached a limit of tokens.
    Incomplete,
    /// The client left before the end.
    Cancelled,
    /// Why there is no answer.
    Failed(String),
}

impl ResponseStatus {
    /// As events call it, too.
    pub(super) fn name(&self) -> &'static str {
        match self {
            ResponseStatus::InProgress => "in_progress",
            ResponseStatus::Completed => "completed",
            ResponseStatus::Incomplete => "incomplete",
            ResponseStatus::Cancelled => "cancelled",
            ResponseStatus::Failed(_) => "failed",
        }
    }
}

/// The part of a response that depends on its request: the request's own values, and defaults where it has none.
pub(super) fn echo(request: &Map<String, Value>) -> Map<String, Value> {
    let mut echo = Map::new();
    for field in ECHOED {
        let given = request.get(field).filter(|value| !value.is_null()).cloned();
        echo.insert(field.to_owned(), given.unwrap_or_else(|| in_force(field)));
    }
    // Neither can be chosen: the model calls as many tools as it does, and too long an input is refused.
    echo.insert("parallel_tool_calls".to_owned(), json!(true));
    echo.insert("truncation".to_owned(), json!("disabled"));
    echo
}

fn in_force(field: &str) -> Value {
    match field {
        "metadata" => json!({}),
        "reasoning" => json!({ "effort": null, "summary": null }),
        "service_tier" => json!("default"),
        "store" => json!(true),
        "temperature" | "top_p" => json!(1.0),
        "text" => json!({ "format": { "type": "text" } }),
        "tool_choice" => json!("auto"),
        "tools" => json!([]),
        "top_logprobs" => json!(0),
        _ => Value::Null,
    }
}

/// A whole response. `created` is in seconds since the epoch.
pub(super) fn response(
    id: &str,
    created: u64,
    model: &str,
    echo: &Map<String, Value>,
    response_status: &ResponseStatus,
    output: Vec<Value>,
) -> Value {
    let error = match response_status {
        ResponseStatus::Failed(message) => json!({ "code": "server_error", "message": message }),
        _ => Value::Null,
    };
    let incomplete =
        matches!(response_status, ResponseStatus::Incomplete).then(|| json!({ "reason": "max_output_tokens" }));
    let mut response = json!({
        "id": id,
        "object": "response",
        "created_at": created,
        "status": response_status.name(),
        "background": false,
        "error": error,
        "incomplete_details": incomplete,
        "model": model,
        "output": output,
        "usage": null,
    });
    if let Some(fields) = response.as_object_mut() {
        fields.extend(echo.clone());
    }
    response
}

/// The event of a response that has come to a status.
pub(super) fn status_event(name: &str, response: Value) -> Value {
    json!({ "type": format!("response.{name}"), "response": response })
}

/// Writes an event of a stream with its number, under its own name.
pub(super) fn write_event(mut event: Value, number: u64, out: &mut Vec<u8>) {
    event["sequence_number"] = json!(number);
    let name = event["type"].as_str().unwrap_or_default();
    write_named_event(out, name, exact_json(&event));
}

/// `usage` of a response.
pub(super) fn usage(finished: &Finished, reasoning_tokens: usize) -> Value {
    let Finished { prompt_tokens, sampled_tokens, cached_tokens, .. } = *finished;
    json!({
        "input_tokens": prompt_tokens,
        "input_tokens_details": { "cached_tokens": cached_tokens.unwrap_or_default() },
        "output_tokens": sampled_tokens,
        "output_tokens_details": { "reasoning_tokens": reasoning_tokens },
        "total_tokens": prompt_tokens + sampled_tokens,
    })
}
