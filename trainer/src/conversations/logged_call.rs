//! A model call that another program logged, as a conversation whose last message is the call's answer.

use fulgurite_types::{Message, mended_json};
use serde_json::{Map, Value, json};

use super::rendering::RenderRefusal;
use super::rows::conversation::{Conversation, read_row};
use super::rows::published;
use super::split::sequences::Unusable;
use crate::ConversationForm;

/// What LiteLLM writes in place of messages that it was told not to log.
const REDACTED: &str = "redacted-by-litellm";

/// Fields of a message that are kept; loggers add fields of their own.
const KEPT: [&str; 6] = ["role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"];

impl ConversationForm {
    /// Reads a row of JSON in this form, which is one of conversations.
    pub(super) fn read(self, json: &[u8]) -> Result<Conversation, RenderRefusal> {
        let read = || read_row::<Map<String, Value>>(json).map_err(RenderRefusal::Wrong);
        let call = match self {
            Self::Messages => return Conversation::read(json).map_err(RenderRefusal::Wrong),
            Self::Sharegpt | Self::PromptCompletion | Self::Alpaca => {
                return published::conversation(self, read()?).map_err(RenderRefusal::Wrong);
            }
            Self::Litellm => litellm(read()?)?,
            Self::Langfuse => langfuse(read()?)?,
            Self::Auto | Self::SoftTargets | Self::Pairs | Self::Labels | Self::Judged => {
                let message = format!("is of form = \"{}\", which is none of a conversation", self.as_str());
                return Err(RenderRefusal::Wrong(message));
            }
        };
        call.conversation()
    }
}

/// What a log holds of a call.
#[derive(Debug, PartialEq)]
struct LoggedCall {
    /// Messages, or text.
    prompt: Value,
    /// A message, text, or a completion with choices.
    answer: Value,
    tools: Option<Value>,
}

impl LoggedCall {
    fn conversation(self) -> Result<Conversation, RenderRefusal> {
        let mut messages = prompt_messages(self.prompt)?;
        messages.push(answer_message(self.answer)?);
        let is_redacted = |message: &Value| message["content"] == REDACTED;
        if messages.iter().any(is_redacted) {
            return Err(left_out("is a call whose messages were not logged: redacted-by-litellm"));
        }
        let messages = messages.into_iter().enumerate().map(|(index, message)| read_message(index, message));
        let messages = messages.collect::<Result<Vec<_>, _>>().map_err(RenderRefusal::Wrong)?;
        let tools = match self.tools {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(tools)) => tools,
            Some(_) => return Err(RenderRefusal::Wrong("has tools that are no list".to_owned())),
        };
        Conversation::of(messages, tools).map_err(RenderRefusal::Wrong)
    }
}

/// LiteLLM's `StandardLoggingPayload`, by itself or as its callbacks get it
/// (<https://docs.litellm.ai/docs/proxy/logging_spec>).
fn litellm(mut row: Map<String, Value>) -> Result<LoggedCall, RenderRefusal> {
    if let Some(Value::Object(payload)) = row.get_mut("standard_logging_object") {
        row = std::mem::take(payload);
    }
    if !row.contains_key("messages") || !row.contains_key("response") {
        let message = "has no `messages` and `response`, as each of LiteLLM's logged calls has";
        return Err(RenderRefusal::Wrong(message.to_owned()));
    }
    if row.get("status").is_some_and(|status| status == "failure") {
        return Err(left_out("is a call that failed"));
    }
    let kind = row.get("call_type").and_then(Value::as_str).unwrap_or("completion");
    if !["completion", "acompletion"].contains(&kind) {
        return Err(left_out(&format!("is a call of type `{kind}`, which is no chat")));
    }
    let tools = row.get_mut("model_parameters").and_then(|parameters| parameters.get_mut("tools")).map(Value::take);
    let mut removed = |name: &str| unquoted(row.remove(name).unwrap_or_default());
    Ok(LoggedCall { prompt: removed("messages"), answer: removed("response"), tools })
}

/// An observation of Langfuse's API, or of its exports, where input and output are text that holds JSON
/// (<https://langfuse.com/docs/api-and-data-platform/features/blob-storage-export-fields>).
fn langfuse(mut row: Map<String, Value>) -> Result<LoggedCall, RenderRefusal> {
    let Some(kind) = row.get("type").and_then(Value::as_str) else {
        let message = "has no `type`, as each of Langfuse's observations has";
        return Err(RenderRefusal::Wrong(message.to_owned()));
    };
    if !kind.eq_ignore_ascii_case("generation") {
        return Err(left_out(&format!("is an observation of type {kind}, which is no model call")));
    }
    if row.get("level").is_some_and(|level| level == "ERROR") {
        return Err(left_out("is a call that failed"));
    }
    let mut removed = |name: &str| unquoted(row.remove(name).unwrap_or_default());
    let (mut prompt, answer) = (removed("input"), removed("output"));
    let tools = prompt.get_mut("tools").map(Value::take);
    if let Some(messages) = prompt.get_mut("messages") {
        prompt = messages.take();
    }
    Ok(LoggedCall { prompt, answer, tools })
}

/// JSON that was put in a string, or what was given.
fn unquoted(value: Value) -> Value {
    let parsed = value
        .as_str()
        .filter(|text| text.starts_with(['{', '[']))
        .and_then(|text| serde_json::from_str(&mended_json(text)).ok());
    parsed.unwrap_or(value)
}

fn left_out(message: &str) -> RenderRefusal {
    RenderRefusal::Unusable(Unusable::NoAnswer, message.to_owned())
}

fn prompt_messages(prompt: Value) -> Result<Vec<Value>, RenderRefusal> {
    match prompt {
        Value::Array(messages) if !messages.is_empty() => Ok(messages),
        Value::Object(message) if message.contains_key("role") => Ok(vec![message.into()]),
        Value::String(text) if !text.is_empty() => Ok(vec![json!({ "role": "user", "content": text })]),
        _ => Err(left_out("is a call whose prompt was not logged")),
    }
}

fn answer_message(answer: Value) -> Result<Value, RenderRefusal> {
    let mut answer = match answer {
        Value::Array(mut answers) if answers.len() == 1 => answers.remove(0),
        answer => answer,
    };
    if let Some(message) = answer.pointer_mut("/choices/0/message") {
        answer = message.take();
    }
    match answer {
        Value::String(text) if !text.is_empty() => Ok(json!({ "role": "assistant", "content": text })),
        Value::Object(mut message) if message.contains_key("content") || message.contains_key("tool_calls") => {
            message.entry("role").or_insert_with(|| "assistant".into());
            match message["role"] == "assistant" {
                true => Ok(message.into()),
                false => Err(RenderRefusal::Wrong(format!("has an answer of role {}", message["role"]))),
            }
        }
        _ => Err(left_out("is a call without an answer")),
    }
}

/// A message with the fields that are the conversation's.
fn read_message(index: usize, message: Value) -> Result<Message, String> {
    let Value::Object(mut fields) = message else { return Err(format!("message {index} is not an object")) };
    fields.retain(|name, value| KEPT.contains(&name.as_str()) && !value.is_null());
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        calls.iter_mut().for_each(wrap_call);
    }
    serde_json::from_value(fields.into()).map_err(|error| format!("message {index}: {error}"))
}

/// Brings LangChain's `{"name", "args", "id"}` to OpenAI's form.
fn wrap_call(call: &mut Value) {
    if let (Some(name), Some(arguments)) = (call.get("name"), call.get("args"))
        && call.get("function").is_none()
    {
        let function = json!({ "name": name, "arguments": arguments.to_string() });
        *call = json!({ "id": call.get("id"), "type": "function", "function": function });
    }
    if let Some(call) = call.as_object_mut() {
        call.retain(|name, value| ["id", "type", "function"].contains(&name.as_str()) && !value.is_null());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: ConversationForm, row: &Value) -> Result<Value, RenderRefusal> {
        let conversation = form.read(row.to_string().as_bytes())?;
        Ok(json!({ "messages": conversation.messages, "tools": conversation.tools }))
    }

    fn left_out_of(form: ConversationForm, row: &Value) -> String {
        match read(form, row) {
            Err(RenderRefusal::Unusable(Unusable::NoAnswer, message)) => message,
            other => panic!("{row}: {other:?}"),
        }
    }

    fn tool() -> Value {
        json!({ "type": "function", "function": { "name": "add", "parameters": { "type": "object" } } })
    }

    fn litellm_row() -> Value {
        json!({
            "id": "chatcmpl-1", "call_type": "acompletion", "status": "success", "startTime": 1.5, "model": "gpt-4o",
            "messages": [{ "role": "user", "content": "2 + 2?" }],
            "model_parameters": { "temperature": 0.5, "tools": [tool()] },
            "response": { "id": "chatcmpl-1", "object": "chat.completion", "choices": [{
                "index": 0, "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant", "content": null, "function_call": null, "provider_specific_fields": null,
                    "tool_calls": [{ "index": 0, "id": "c1", "type": "function",
                        "function": { "name": "add", "arguments": "{}" } }],
                },
            }] },
        })
    }

    #[test]
    fn a_call_that_litellm_logged_is_its_prompt_and_its_answer() {
        let call = json!({ "id": "c1", "type": "function", "function": { "name": "add", "arguments": "{}" } });
        let expected = json!({
            "messages": [
                { "role": "user", "content": "2 + 2?" },
                { "role": "assistant", "content": null, "tool_calls": [call] },
            ],
            "tools": [tool()],
        });
        let row = litellm_row();
        assert_eq!(read(ConversationForm::Litellm, &row).unwrap(), expected);
        // As its callbacks get it, and as its database keeps it.
        let within = json!({ "model": "gpt-4o", "standard_logging_object": row });
        assert_eq!(read(ConversationForm::Litellm, &within).unwrap(), expected);
        let mut quoted = litellm_row();
        quoted["messages"] = quoted["messages"].to_string().into();
        quoted["response"] = quoted["response"].to_string().into();
        assert_eq!(read(ConversationForm::Litellm, &quoted).unwrap(), expected);
    }

    #[test]
    fn an_observation_of_langfuse_is_read_from_its_api_and_from_its_exports() {
        let answer = json!({ "role": "assistant", "content": "4" });
        let prompt = json!([{ "role": "user", "content": "2 + 2?" }]);
        let expected = |tools: &[Value]| json!({ "messages": [prompt[0], answer], "tools": tools });
        let row =
            |input: Value, output: Value| json!({ "id": "o", "type": "GENERATION", "input": input, "output": output });
        let with_tools = json!({ "messages": prompt, "tools": [tool()] });
        for (row, tools) in [
            (row(prompt.clone(), answer.clone()), vec![]),
            (row(with_tools.clone(), answer.clone()), vec![tool()]),
            (row(with_tools.to_string().into(), answer.to_string().into()), vec![tool()]),
            (row("2 + 2?".into(), "4".into()), vec![]),
            (row(prompt.clone(), json!([answer])), vec![]),
            (row(prompt.clone(), json!({ "choices": [{ "message": answer }] })), vec![]),
        ] {
            assert_eq!(read(ConversationForm::Langfuse, &row).unwrap(), expected(&tools), "{row}");
        }
        let call = json!({ "name": "add", "args": { "a": 2 }, "id": "c1", "type": "tool_call" });
        let called = json!({ "role": "assistant", "content": "", "tool_calls": [call] });
        let read = read(ConversationForm::Langfuse, &row(with_tools, called)).unwrap();
        let function = json!({ "name": "add", "arguments": "{\"a\":2}" });
        assert_eq!(
            read["messages"][1]["tool_calls"],
            json!([{ "id": "c1", "type": "function", "function": function }])
        );
    }

    #[test]
    fn what_is_no_answered_call_is_left_out_by_cause() {
        let changed = |key: &str, value: Value| {
            let mut row = litellm_row();
            row[key] = value;
            row
        };
        for (row, cause) in [
            (changed("status", "failure".into()), "is a call that failed"),
            (changed("call_type", "aembedding".into()), "is a call of type `aembedding`, which is no chat"),
            (changed("response", Value::Null), "is a call without an answer"),
            (changed("response", json!({ "choices": [] })), "is a call without an answer"),
            (changed("messages", json!([])), "is a call whose prompt was not logged"),
            (
                changed("messages", json!([{ "role": "user", "content": REDACTED }])),
                "is a call whose messages were not logged: redacted-by-litellm",
            ),
        ] {
            assert_eq!(left_out_of(ConversationForm::Litellm, &row), cause);
        }
        for (row, cause) in [
            (
                json!({ "type": "SPAN", "input": "a", "output": "b" }),
                "is an observation of type SPAN, which is no model call",
            ),
            (json!({ "type": "GENERATION", "level": "ERROR", "input": "a" }), "is a call that failed"),
            (json!({ "type": "GENERATION", "input": "a", "output": null }), "is a call without an answer"),
        ] {
            assert_eq!(left_out_of(ConversationForm::Langfuse, &row), cause);
        }
    }

    #[test]
    fn rows_of_another_form_are_refused() {
        let refused = |form: ConversationForm, row: &Value| match read(form, row) {
            Err(RenderRefusal::Wrong(message)) => message,
            other => panic!("{row}: {other:?}"),
        };
        let chat = json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }] });
        assert!(refused(ConversationForm::Litellm, &chat).contains("`messages` and `response`"));
        assert!(refused(ConversationForm::Langfuse, &chat).contains("no `type`"));
        // The prompt alone would be trained in silence.
        let message = refused(ConversationForm::Messages, &litellm_row());
        assert!(message.contains("form = \"litellm\""), "{message}");
        let message =
            refused(ConversationForm::Messages, &json!({ "type": "GENERATION", "input": "a", "output": "b" }));
        assert!(message.contains("form = \"langfuse\""), "{message}");
    }
}
