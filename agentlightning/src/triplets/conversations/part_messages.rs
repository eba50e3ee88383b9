//! Messages of OpenTelemetry's current conventions for generative AI: roles with parts, as JSON text or as they are.

use fulgurite_types::Object;
use serde_json::{Value, json};

use super::openai_form::{self, ROLES, tool_call};

const INPUT: &str = "gen_ai.input.messages";
const OUTPUT: &str = "gen_ai.output.messages";
const SYSTEM: &str = "gen_ai.system_instructions";
const TOOLS: &str = "gen_ai.tool.definitions";

/// Whether attributes are a model call's in these conventions.
pub(crate) fn is_call(attributes: &Object) -> bool {
    ["gen_ai.operation.name", "gen_ai.provider.name"].iter().any(|name| attributes.contains_key(*name))
}

/// Whether attributes have messages of these conventions.
pub(crate) fn has_messages(attributes: &Object) -> bool {
    attributes.contains_key(INPUT) || attributes.contains_key(OUTPUT)
}

/// The messages, in the form that OpenAI's API takes.
pub(crate) fn messages(attributes: &Object) -> Result<Vec<Value>, String> {
    let mut read = prompt(attributes)?;
    read.extend(answers(attributes)?);
    Ok(read)
}

/// Those of the prompt.
pub(crate) fn prompt(attributes: &Object) -> Result<Vec<Value>, String> {
    let mut read = Vec::new();
    let system = list(attributes, SYSTEM)?;
    if !system.is_empty() {
        push_message(&mut read, "system", &system);
    }
    push_messages(&mut read, attributes, INPUT)?;
    Ok(read)
}

/// The answers.
pub(crate) fn answers(attributes: &Object) -> Result<Vec<Value>, String> {
    let mut read = Vec::new();
    push_messages(&mut read, attributes, OUTPUT)?;
    Ok(read)
}

fn push_messages(read: &mut Vec<Value>, attributes: &Object, name: &str) -> Result<(), String> {
    for message in list(attributes, name)? {
        let role = message.get("role").and_then(Value::as_str).filter(|role| ROLES.contains(role));
        let role = role.ok_or_else(|| format!("a message of {name} has no role that OpenAI's API knows"))?;
        let parts = message.get("parts").and_then(Value::as_array);
        let parts = parts.ok_or_else(|| format!("a message of {name} has no list of parts"))?;
        push_message(read, role, parts);
    }
    Ok(())
}

/// The tools that the model could call, if they were said.
pub(crate) fn tools(attributes: &Object) -> Result<Option<Vec<Value>>, String> {
    let tools = list(attributes, TOOLS)?;
    let tool = |tool: &Value| match tool.get("function") {
        // They are in OpenAI's form already.
        Some(_) => Ok(tool.clone()),
        None => openai_form::tool(tool),
    };
    if tools.is_empty() { Ok(None) } else { tools.iter().map(tool).collect::<Result<_, _>>().map(Some) }
}

fn list(attributes: &Object, name: &str) -> Result<Vec<Value>, String> {
    match attributes.get(name) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => Ok(items.clone()),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|error| format!("{name} is no list: {error}")),
        Some(_) => Err(format!("{name} is no list")),
    }
}

/// Appends a message, and each result of a tool as one of its own.
fn push_message(read: &mut Vec<Value>, role: &str, parts: &[Value]) {
    let (mut content, mut calls, mut reasoning, mut results) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for part in parts {
        let text = |name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "text" => content.push(json!({"type": "text", "text": text("content")})),
            "reasoning" => reasoning.push(text("content")),
            "tool_call" => {
                calls.push(tool_call(part.get("id"), None, part.get("name"), part.get("arguments")));
            }
            "tool_call_response" => results.push(tool_result(part)),
            "blob" => content.push(media(part, &format!("data:{};base64,{}", text("mime_type"), text("content")))),
            "uri" => content.push(media(part, text("uri"))),
            "file" => content.push(json!({"type": "file", "file": {"file_id": part.get("file_id")}})),
            // As it was written, so that nothing is lost.
            _ => content.push(part.clone()),
        }
    }
    if !content.is_empty() || !calls.is_empty() || !reasoning.is_empty() || results.is_empty() {
        let without = if role == "assistant" { Value::Null } else { json!("") };
        let content = match &mut content[..] {
            [] => without,
            [part] if part["type"] == "text" => part["text"].take(),
            _ => Value::Array(content),
        };
        let mut message = json!({"role": role, "content": content});
        if !reasoning.is_empty() {
            message["reasoning_content"] = json!(reasoning.join("\n"));
        }
        if !calls.is_empty() {
            message["tool_calls"] = Value::Array(calls);
        }
        read.push(message);
    }
    read.extend(results);
}

fn tool_result(part: &Value) -> Value {
    let content = match part.get("response").or_else(|| part.get("result")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    json!({"role": "tool", "content": content, "tool_call_id": part.get("id")})
}

/// A picture or another file at a URL.
fn media(part: &Value, url: &str) -> Value {
    let is = |kind: &str| {
        let of = |name: &str| part.get(name).and_then(Value::as_str).is_some_and(|value| value.starts_with(kind));
        of("modality") || of("mime_type")
    };
    if is("image") {
        json!({"type": "image_url", "image_url": {"url": url}})
    } else {
        json!({"type": "file", "file": {"file_url": url}})
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{TripletOptions, any_triplets, messages, tracer_triplets};
    use super::*;
    use crate::triplets::tests::span;

    /// The event that has a call's messages.
    const EVENT: &str = "gen_ai.client.inference.operation.details";

    fn parts() -> Value {
        json!({
            INPUT: [
                {"role": "user", "parts": [{"type": "text", "content": "how warm?"},
                    {"type": "uri", "modality": "image", "uri": "http://x/y.png"}]},
                {"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"},
                    {"type": "tool_call", "id": "t1", "name": "warmth", "arguments": {"at": 1}}]},
                {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": {"c": 5}}]},
            ],
            OUTPUT: [{"role": "assistant", "parts": [{"type": "text", "content": "5"}], "finish_reason": "stop"}],
            SYSTEM: [{"type": "text", "content": "be short"}],
            TOOLS: [{"type": "function", "name": "warmth", "parameters": {"type": "object"}}],
        })
    }

    fn expected() -> Value {
        let call = json!({"id": "t1", "type": "function", "function": {"name": "warmth", "arguments": "{\"at\":1}"}});
        json!({
            "messages": [
                {"role": "system", "content": "be short"},
                {"role": "user", "content": [{"type": "text", "text": "how warm?"},
                    {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]},
                {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [call]},
                {"role": "tool", "content": "{\"c\":5}", "tool_call_id": "t1"},
                {"role": "assistant", "content": "5"},
            ],
            "tools": [{"type": "function", "function": {
                "name": "warmth", "description": "", "parameters": {"type": "object"},
            }}],
        })
    }

    #[test]
    fn messages_of_parts_are_read_as_they_are_and_as_json_text() {
        let mut texts = parts();
        texts.as_object_mut().unwrap().values_mut().for_each(|value| *value = json!(value.to_string()));
        for attributes in [parts(), texts] {
            let report = messages(&[span("a", None, "chat m", attributes)]);
            assert_eq!(json!(report.conversations), json!([expected()]));
        }
    }

    #[test]
    fn messages_beside_a_span_belong_to_it_in_either_order() {
        let call = span("a", None, "chat m", json!({"gen_ai.request.model": "m"}));
        let record = span("b", Some("a"), EVENT, parts());
        let mut with_event = call.clone();
        let event = json!({"name": EVENT, "attributes": parts(), "timestamp": 1.0});
        with_event.events.push(serde_json::from_value(event).unwrap());
        for spans in [vec![call.clone(), record.clone()], vec![record.clone(), call], vec![record], vec![with_event]] {
            let report = messages(&spans);
            assert_eq!(json!(report.conversations), json!([expected()]));
            assert_eq!(report.passed_over, []);
        }
    }

    #[test]
    fn a_triplet_has_the_messages_of_parts() {
        let mut attributes = parts();
        let tokens = json!({"prompt_token_ids": [1], "response_token_ids": [2], "gen_ai.response.id": "r"});
        attributes.as_object_mut().unwrap().extend(tokens.as_object().unwrap().clone());
        let call = span("a", None, "openai.chat.completion", attributes);
        let options = TripletOptions::default();
        for report in [tracer_triplets(std::slice::from_ref(&call), &options), any_triplets(&[call], &options)] {
            let [triplet] = &report.triplets[..] else { panic!("{report:?}") };
            let conversation = expected();
            let messages = conversation["messages"].as_array().unwrap();
            assert_eq!(triplet.prompt.raw_content, json!(messages[..4]));
            assert_eq!(triplet.response.raw_content, json!(messages[4..]));
            assert_eq!(triplet.prompt.image_urls, ["http://x/y.png"]);
        }
    }

    #[test]
    fn a_call_without_messages_is_no_empty_conversation() {
        let attributes = json!({"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"});
        let report = messages(&[span("a", None, "chat m", attributes)]);
        assert_eq!((report.conversations.len(), report.passed_over[0].to_string().as_str()), (0, "no messages"));
    }

    #[test]
    fn messages_that_were_cut_off_are_named() {
        let report = messages(&[span("a", None, "chat m", json!({INPUT: "[{\"role\": \"us"}))]);
        assert_eq!(
            report.passed_over[0].to_string(),
            "messages that cannot be read (gen_ai.input.messages is no list: EOF while parsing a string at line 1 \
             column 13)"
        );
    }
}
