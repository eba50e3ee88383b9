//! Spans to conversations, as supervised training and prompt optimisation read them.

use std::collections::{HashMap, HashSet};

use fulgurite_store::CallDetails;
use fulgurite_types::{Object, Span};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::attributes::nested;
use super::super::report::{PassedOver, Reason, Reasons};
use super::openai_form::{ROLES, tool, tool_call};
use super::part_messages::{self, has_messages};

/// The messages and tools of one model call, in the form that OpenAI's API takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conversation {
    /// The prompt's messages and the answers.
    pub messages: Vec<Value>,
    /// The tools that the model could call.
    pub tools: Option<Vec<Value>>,
}

/// The conversations among some spans, and for every other span why it is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConversationReport {
    /// One for each model call, in the order of the spans.
    pub conversations: Vec<Conversation>,
    /// The spans that are none.
    pub passed_over: Vec<PassedOver>,
}

/// The conversations in spans with `gen_ai.*` attributes, as Agent-lightning 0.3's `TraceToMessages` reads them, one for
/// each span: an answer's tool calls are the span's direct children with `tool.*` attributes.
///
/// Where there are no such children, they are the answer's own, which Agent-lightning drops, as it does text beside calls
/// and reasoning. A span that cannot be read is passed over; there it is an error for all.
pub fn messages(spans: &[Span]) -> ConversationReport {
    let mut reasons = Reasons::assume(spans, Reason::NoMessages);
    let mut tool_calls: HashMap<&str, Vec<Value>> = HashMap::new();
    for span in spans {
        if let Some((parent_id, tool)) = span.parent_id.as_deref().zip(nested(&span.attributes, "tool")) {
            tool_calls.entry(parent_id).or_default().push(executed_tool_call(&tool));
        }
    }
    let details = CallDetails::of(spans);
    let calls: HashSet<(&str, &str)> = spans.iter().map(|span| (&span.trace_id[..], &span.span_id[..])).collect();
    let mut conversations = Vec::new();
    for (index, span) in spans.iter().enumerate() {
        let call = (&span.trace_id[..], span.parent_id.as_deref().unwrap_or_default());
        if CallDetails::are(span) && calls.contains(&call) {
            // They are read with the call.
            reasons.clear(index);
            continue;
        }
        let executed = tool_calls.get(span.span_id.as_str()).map_or(&[][..], Vec::as_slice);
        let with_details = details.with_attributes(span);
        match conversation(with_details.as_ref().unwrap_or(&span.attributes), executed) {
            Ok(Some(conversation)) => {
                reasons.clear(index);
                conversations.push(conversation);
            }
            Ok(None) => {}
            Err(problem) => reasons.set(index, Reason::UnreadableMessages, Some(problem)),
        }
    }
    ConversationReport { conversations, passed_over: reasons.into_passed_over() }
}

/// `None` for a span that is no model call's.
fn conversation(attributes: &Object, executed: &[Value]) -> Result<Option<Conversation>, String> {
    if has_messages(attributes) {
        let (messages, tools) = (part_messages::messages(attributes)?, part_messages::tools(attributes)?);
        return Ok(Some(Conversation { messages, tools }).filter(|read| !read.messages.is_empty()));
    }
    let part = |name: &str| nested(attributes, &format!("gen_ai.{name}"));
    let (prompt, completion, request) = (part("prompt"), part("completion"), part("request"));
    if prompt.is_none() && completion.is_none() && request.is_none() && part("response").is_none() {
        return Ok(None);
    }
    let mut messages = Vec::new();
    for message in list("gen_ai.prompt", prompt.as_ref())? {
        messages.push(prompt_message(message)?);
    }
    let completions = list("gen_ai.completion", completion.as_ref())?;
    for answer in completions.iter().filter(|answer| answer.get("role").is_some_and(|role| role == "assistant")) {
        let requested = || answer.get("tool_calls").and_then(Value::as_array).map(|calls| requested_tool_calls(calls));
        let tool_calls = if executed.is_empty() { requested().unwrap_or_default() } else { executed.to_vec() };
        let mut message = json!({"role": "assistant", "content": content(answer)});
        add_reasoning(&mut message, answer);
        if !tool_calls.is_empty() {
            message["tool_calls"] = Value::Array(tool_calls);
        }
        messages.push(message);
    }
    let functions = request.as_ref().and_then(|request| request.get("functions")?.as_array());
    let tools = functions.map(|functions| functions.iter().map(tool).collect::<Result<_, _>>()).transpose()?;
    // A tracer of today's conventions that keeps no messages says so by leaving them out.
    let is_without = messages.is_empty() && tools.is_none() && part_messages::is_call(attributes);
    Ok((!is_without).then_some(Conversation { messages, tools }))
}

fn list<'v>(name: &str, value: Option<&'v Value>) -> Result<&'v [Value], String> {
    match value {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(format!("{name} is not a list of messages")),
    }
}

fn prompt_message(message: &Value) -> Result<Value, String> {
    let Some(role) = message.get("role").and_then(Value::as_str).filter(|role| ROLES.contains(role)) else {
        return Err("a message of gen_ai.prompt has no role that OpenAI's API knows".to_owned());
    };
    if role == "assistant"
        && let Some(tool_calls) = message.get("tool_calls").and_then(Value::as_array)
    {
        let mut read =
            json!({"role": role, "content": content(message), "tool_calls": requested_tool_calls(tool_calls)});
        add_reasoning(&mut read, message);
        return Ok(read);
    }
    let content = match content(message) {
        Value::Null => json!(""),
        content @ (Value::String(_) | Value::Array(_)) => content,
        _ => return Err(format!("the content of a {role} message is neither text nor a list of parts")),
    };
    let mut read = json!({"role": role, "content": content});
    add_reasoning(&mut read, message);
    match (role, message.get("tool_call_id")) {
        ("tool", Some(id @ Value::String(_))) => read["tool_call_id"] = id.clone(),
        ("tool", _) => return Err("a tool message has no tool_call_id".to_owned()),
        _ => {}
    }
    Ok(read)
}

/// What is said; parts, of which an attribute holds the JSON text, are a list again.
fn content(message: &Value) -> Value {
    let given = message.get("content").cloned().unwrap_or_default();
    let parts = || serde_json::from_str(given.as_str()?).ok();
    let is_parts = message.get("content_is_parts").is_some_and(|is_parts| is_parts == true);
    if is_parts { parts().unwrap_or(given) } else { given }
}

fn add_reasoning(read: &mut Value, message: &Value) {
    if let Some(reasoning @ Value::String(_)) = message.get("reasoning_content") {
        read["reasoning_content"] = reasoning.clone();
    }
}

/// Tool calls that a tracer wrote flat, in OpenAI's form.
fn requested_tool_calls(calls: &[Value]) -> Vec<Value> {
    let call = |call: &Value| tool_call(call.get("id"), call.get("type"), call.get("name"), call.get("arguments"));
    calls.iter().map(call).collect()
}

/// The tool call, made of the span of its execution.
fn executed_tool_call(tool: &Value) -> Value {
    let call = tool.get("call");
    let of_call = |key: &str| call.and_then(|call| call.get(key));
    tool_call(of_call("id"), of_call("type"), tool.get("name"), tool.get("parameters"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::triplets::tests::span;

    /// The one conversation of spans, or what keeps the first span from being one.
    fn read(spans: &[Span]) -> Result<Value, String> {
        let report = messages(spans);
        match report.conversations.first() {
            Some(conversation) => Ok(json!(conversation)),
            None => Err(report.passed_over[0].to_string()),
        }
    }

    fn call(more: Value) -> Span {
        let mut attributes = json!({
            "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi",
            "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "yo",
        });
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        span("a", None, "x", attributes)
    }

    #[test]
    fn tool_calls_of_the_history_are_put_in_openais_form() {
        let spans = [call(json!({
            "gen_ai.prompt.1.role": "assistant", "gen_ai.prompt.1.tool_calls.0.id": "t1",
            "gen_ai.prompt.1.tool_calls.0.name": "f", "gen_ai.prompt.1.tool_calls.0.arguments": "{\"a\":1}",
            "gen_ai.prompt.2.role": "tool", "gen_ai.prompt.2.content": "7", "gen_ai.prompt.2.tool_call_id": "t1",
        }))];
        let tool_call = json!({"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}});
        assert_eq!(
            read(&spans).unwrap()["messages"],
            json!([
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": null, "tool_calls": [tool_call]},
                {"role": "tool", "content": "7", "tool_call_id": "t1"},
                {"role": "assistant", "content": "yo"},
            ])
        );
    }

    #[test]
    fn an_answers_tool_calls_are_the_executed_ones_or_its_own() {
        let own = call(json!({
            "gen_ai.completion.0.tool_calls.0.id": "t1", "gen_ai.completion.0.tool_calls.0.name": "f",
            "gen_ai.completion.0.tool_calls.0.arguments": "{}",
        }));
        let executed = span(
            "b",
            Some("a"),
            "tool",
            json!({"tool.name": "g", "tool.parameters.a": 1, "tool.call.id": "t2", "tool.call.type": "function"}),
        );
        let called = |spans: &[Span]| read(spans).unwrap()["messages"][1]["tool_calls"].clone();
        assert_eq!(
            called(std::slice::from_ref(&own)),
            json!([{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}}])
        );
        assert_eq!(
            called(&[own, executed]),
            json!([{"id": "t2", "type": "function", "function": {"name": "g", "arguments": "{\"a\":1}"}}])
        );
    }

    #[test]
    fn what_is_said_beside_calls_and_thought_before_them_is_kept() {
        let spans = [call(json!({
            "gen_ai.prompt.0.content": "[{\"type\":\"text\",\"text\":\"hi\"}]", "gen_ai.prompt.0.content_is_parts": true,
            "gen_ai.prompt.1.role": "assistant", "gen_ai.prompt.1.content": "let me see",
            "gen_ai.prompt.1.reasoning_content": "hm", "gen_ai.prompt.1.tool_calls.0.name": "f",
            "gen_ai.completion.0.reasoning_content": "so",
        }))];
        let tool_call = json!({"id": null, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        assert_eq!(
            read(&spans).unwrap()["messages"],
            json!([
                {"role": "user", "content": [{"type": "text", "text": "hi"}]},
                {"role": "assistant", "content": "let me see", "tool_calls": [tool_call], "reasoning_content": "hm"},
                {"role": "assistant", "content": "yo", "reasoning_content": "so"},
            ])
        );
    }

    #[test]
    fn tools_are_the_requests_functions() {
        let spans = [call(json!({
            "gen_ai.request.functions.0.name": "f", "gen_ai.request.functions.0.description": "d",
            "gen_ai.request.functions.0.parameters": "{\"type\": \"object\"}", "gen_ai.request.functions.1.name": "g",
        }))];
        assert_eq!(
            read(&spans).unwrap()["tools"],
            json!([
                {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
                {"type": "function", "function": {"name": "g", "description": ""}},
            ])
        );
    }

    #[test]
    fn what_cannot_be_read_is_passed_over_and_named() {
        let fault = |attributes: Value| read(&[span("a", None, "x", attributes)]).unwrap_err();
        assert_eq!(fault(json!({"a": 1})), "no messages");
        assert_eq!(
            fault(json!({"gen_ai.prompt": "hi"})),
            "messages that cannot be read (gen_ai.prompt is not a list of messages)"
        );
        assert_eq!(
            fault(json!({"gen_ai.prompt.0.role": "banana"})),
            "messages that cannot be read (a message of gen_ai.prompt has no role that OpenAI's API knows)"
        );
        assert_eq!(
            fault(json!({"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": 5})),
            "messages that cannot be read (the content of a user message is neither text nor a list of parts)"
        );
        assert_eq!(
            fault(json!({"gen_ai.prompt.0.role": "tool", "gen_ai.prompt.0.content": "5"})),
            "messages that cannot be read (a tool message has no tool_call_id)"
        );
        assert_eq!(
            fault(json!({"gen_ai.request.functions.0.name": "f", "gen_ai.request.functions.0.parameters": "{"})),
            "messages that cannot be read (the parameters of tool \"f\" are not JSON: EOF while parsing an object at \
             line 1 column 1)"
        );
    }
}
