//! Messages and tools as attributes of a call's span, under the names that tracers of OpenAI's clients give them.

use fulgurite_renderers::{Content, Message};
use serde_json::{Map, Value, json};

/// Fields of a message that hold the assistant's reasoning.
pub(crate) const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Adds a message below `prefix`: `gen_ai.prompt.N` or `gen_ai.completion.0`. The same message has the same attributes
/// in both places, so that the store keeps an answer once that comes back in the history.
pub(crate) fn add_message(attributes: &mut Map<String, Value>, prefix: &str, message: &Message) {
    let mut set = |key: &str, value: Value| attributes.insert(format!("{prefix}.{key}"), value);
    set("role", json!(message.role));
    if let Some(content) = &message.content {
        set("content", content_text(content));
    }
    for field in REASONING_FIELDS {
        if let Some(reasoning) = message.extra.get(field).filter(|reasoning| reasoning.is_string()) {
            set(field, reasoning.clone());
        }
    }
    for (field, value) in [("name", &message.name), ("tool_call_id", &message.tool_call_id)] {
        if let Some(value) = value {
            set(field, json!(value));
        }
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        if let Some(id) = &call.id {
            set(&format!("tool_calls.{index}.id"), json!(id));
        }
        set(&format!("tool_calls.{index}.type"), json!(call.call_type));
        set(&format!("tool_calls.{index}.name"), json!(call.function.name));
        set(&format!("tool_calls.{index}.arguments"), as_text(&call.function.arguments));
    }
}

/// Adds the tools that a request declares.
pub(crate) fn add_tools(attributes: &mut Map<String, Value>, tools: &[Value]) {
    for (index, function) in tools.iter().filter_map(|tool| tool.get("function")).enumerate() {
        for field in ["name", "description", "parameters"] {
            if let Some(value) = function.get(field).filter(|value| !value.is_null()) {
                attributes.insert(format!("gen_ai.request.functions.{index}.{field}"), as_text(value));
            }
        }
    }
}

fn content_text(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!(text),
        // An attribute is a string or a list of one kind, so parts go in as JSON text.
        Content::Parts(parts) => json!(json!(parts).to_string()),
    }
}

fn as_text(value: &Value) -> Value {
    match value {
        Value::String(_) => value.clone(),
        other => json!(other.to_string()),
    }
}
