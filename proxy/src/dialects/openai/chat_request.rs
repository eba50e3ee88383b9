use fulgurite_types::{Content, ContentPart, Message};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::reply_shape::Shape;
use super::response_format;
use super::sampling_fields::SamplingFields;
use super::tool_fields::{ChatTools, ToolFields};
use crate::dialects::field_checks::refuse;
use crate::dialects::object_fields::{RESPONSE_FORMAT, TOOL_CHOICE};
use crate::error::ProxyError;
use crate::record::message_attributes::REASONING_FIELDS;
use crate::reply::assistant_message::drop_void_calls;
use crate::requests::left_out::LeftOut;
use crate::requests::model_request::{AnswerOptions, ModelRequest, Prompt};
use crate::requests::request_body::{digest, read_fields};
use crate::requests::structured_output::StructuredOutput;

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// The fields that only Chat Completions has.
#[derive(Debug, Deserialize)]
struct ChatFields {
    messages: Vec<Message>,
    max_completion_tokens: Option<u32>,
    logprobs: Option<bool>,
    top_logprobs: Option<usize>,
    response_format: Option<Value>,
}

/// Reads and checks a Chat Completions request.
pub(crate) fn read(mut body: Map<String, Value>) -> Result<ModelRequest, ProxyError> {
    let digest = digest(&body);
    let mut chat: ChatFields = read_fields(&mut body)?;
    let tools: ToolFields = read_fields(&mut body)?;
    let fields = SamplingFields::read(body)?;
    chat.check_messages()?;
    chat.messages.iter_mut().enumerate().try_for_each(|(index, message)| read_content(index, message))?;
    drop_void_calls(&mut chat.messages);
    let json = response_format::read("response_format", chat.response_format.as_ref())?;
    let mut left_out = LeftOut::default();
    left_out.look_into("response_format", chat.response_format.as_ref(), RESPONSE_FORMAT);
    left_out.look_into("tool_choice", tools.tool_choice.as_ref(), TOOL_CHOICE);
    let ChatTools { shown, call, single_call } = tools.check()?;
    let logprobs = chat.logprobs.unwrap_or(false);
    if chat.top_logprobs.is_some_and(|top| top > 0) && !logprobs {
        return Err(ProxyError::invalid("top_logprobs", "top_logprobs needs logprobs: true"));
    }
    let max_tokens = match chat.max_completion_tokens {
        Some(limit) => ("max_completion_tokens", Some(limit)),
        None => ("max_tokens", fields.max_tokens),
    };
    let options = fields.check(max_tokens, ("top_logprobs", chat.top_logprobs), logprobs)?;
    let options = AnswerOptions { form: StructuredOutput { json, call, single_call }, ..options };
    let mut request = fields.request(Shape::Chat, Prompt::conversation(chat.messages, shown), options, digest);
    request.left_out.extend(left_out);
    Ok(request)
}

/// Messages and tools of a request that is not checked; `None` if its messages cannot be read.
pub(crate) fn conversation(body: &Map<String, Value>) -> Option<(Vec<Message>, Vec<Value>)> {
    let messages = serde_json::from_value(body.get("messages")?.clone()).ok()?;
    Some((messages, body.get("tools").and_then(Value::as_array).cloned().unwrap_or_default()))
}

impl ChatFields {
    fn check_messages(&self) -> Result<(), ProxyError> {
        if self.messages.is_empty() {
            return Err(ProxyError::invalid("messages", "messages must hold at least one message"));
        }
        for (index, message) in self.messages.iter().enumerate() {
            if !ROLES.contains(&message.role.as_str()) {
                return Err(ProxyError::invalid(
                    &format!("messages[{index}].role"),
                    format!("`{}` is not a role; expected one of {}", message.role, ROLES.join(", ")),
                ));
            }
            check_parts_of_turn(index, message)?;
        }
        Ok(())
    }
}

/// A message's tool calls, results and reasoning.
fn check_parts_of_turn(index: usize, message: &Message) -> Result<(), ProxyError> {
    let field = |name: &str| format!("messages[{index}].{name}");
    if message.role == "tool" && message.tool_call_id.is_none() {
        return refuse(&field("tool_call_id"), "must name the call that the message answers");
    }
    if message.role != "assistant" && !message.tool_calls.is_empty() {
        return refuse(&field("tool_calls"), "belong to messages of the assistant");
    }
    for (call_index, call) in message.tool_calls.iter().enumerate() {
        if call.call_type != "function" {
            let name = field(&format!("tool_calls[{call_index}].type"));
            return refuse(&name, &format!("is `{}`; only calls of functions are supported", call.call_type));
        }
    }
    for name in REASONING_FIELDS {
        if message.extra.get(name).is_some_and(|reasoning| !(reasoning.is_string() || reasoning.is_null())) {
            return refuse(&field(name), "must be a string");
        }
    }
    Ok(())
}

/// Checks that a message's content is text, and makes text of what the assistant refused. Templates leave out what they
/// do not know, and the rest of the content with it.
fn read_content(index: usize, message: &mut Message) -> Result<(), ProxyError> {
    let by_assistant = message.is_assistant();
    let Some(Content::Parts(parts)) = &mut message.content else { return Ok(()) };
    for (place, part) in parts.iter_mut().enumerate() {
        let field = |name: &str| format!("messages[{index}].content[{place}].{name}");
        let name = match part.part_type() {
            "text" => "text",
            kind @ ("refusal" | "thinking") if by_assistant => kind,
            "" => return refuse(&field("type"), "must be the part's type"),
            other => return refuse(&field("type"), &format!("is `{other}`, but the model here takes text only")),
        }
        .to_owned();
        let Some(text) = part.0.get(&name).and_then(Value::as_str) else {
            return refuse(&field(&name), "must be a string");
        };
        if name == "refusal" {
            *part = ContentPart::from_text(text);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fulgurite_types::SamplingParameters;
    use serde_json::json;

    use super::*;
    use crate::requests::request_body::parse;

    fn read_value(value: Value) -> Result<ModelRequest, (Option<String>, String)> {
        let wanted = parse(value.to_string().as_bytes()).and_then(read);
        wanted.map_err(|error| match error {
            ProxyError::InvalidRequest { message, parameter, .. } => (parameter, message),
            other => panic!("{other:?}"),
        })
    }

    fn with(key: &str, value: Value) -> Value {
        let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
        body[key] = value;
        body
    }

    fn turn(key: &str, value: Value) -> Value {
        let mut message = json!({ "role": "assistant", "content": null });
        message[key] = value;
        with("messages", json!([message]))
    }

    /// A message whose content is text, and a part.
    fn message_with_part(role: &str, part: Value) -> Value {
        let content = json!([{ "type": "text", "text": "What is this?" }, part]);
        with("messages", json!([{ "role": role, "content": content, "tool_call_id": "c" }]))
    }

    #[test]
    fn what_the_assistant_refused_is_text() {
        let refused =
            read_value(message_with_part("assistant", json!({ "type": "refusal", "refusal": "No." }))).unwrap();
        let Prompt::Messages(conversation) = refused.prompt else { panic!("{:?}", refused.prompt) };
        assert_eq!(conversation.messages[0].plain_text(0).unwrap(), "What is this?No.");
    }

    #[test]
    fn every_fault_names_its_field() {
        for (body, parameter) in [
            (json!({ "model": "m" }), None),
            (json!({ "messages": [{ "role": "user", "content": "hi" }] }), None),
            (with("messages", json!([])), Some("messages")),
            (with("messages", json!([{ "role": "robot", "content": "x" }])), Some("messages[0].role")),
            (with("messages", json!([{ "content": "x" }])), Some("messages[0]")),
            (with("messages", json!("hi")), Some("messages")),
            (with("temperature", json!(3)), Some("temperature")),
            (with("temperature", json!("warm")), Some("temperature")),
            (with("max_tokens", json!(0)), Some("max_tokens")),
            (with("max_completion_tokens", json!(0)), Some("max_completion_tokens")),
            (with("max_tokens", json!(-1)), Some("max_tokens")),
            (with("top_p", json!(0)), Some("top_p")),
            (with("n", json!(0)), Some("n")),
            (with("n", json!(129)), Some("n")),
            (with("tools", json!([{}])), Some("tools[0].type")),
            (with("tools", json!("f")), Some("tools")),
            (with("tool_choice", json!("perhaps")), Some("tool_choice")),
            (with("messages", json!([{ "role": "tool", "content": "7" }])), Some("messages[0].tool_call_id")),
            (turn("tool_calls", json!([{ "type": "function" }])), Some("messages[0].tool_calls[0]")),
            (
                turn("tool_calls", json!([{ "type": "custom", "function": { "name": "f" } }])),
                Some("messages[0].tool_calls[0].type"),
            ),
            (turn("reasoning_content", json!(["r"])), Some("messages[0].reasoning_content")),
            (turn("reasoning", json!({})), Some("messages[0].reasoning")),
            (
                with("messages", json!([{ "role": "user", "tool_calls": [{ "function": { "name": "f" } }] }])),
                Some("messages[0].tool_calls"),
            ),
            (with("logit_bias", json!({ "the": 2 })), Some("logit_bias.the")),
            (with("logit_bias", json!({ "1": "2" })), Some("logit_bias.1")),
            (with("logit_bias", json!({ "1": 101 })), Some("logit_bias.1")),
            (with("response_format", json!({ "type": "regex" })), Some("response_format")),
            (with("response_format", json!({ "type": "json_schema" })), Some("response_format.schema")),
            (with("guided_json", json!({ "type": "object" })), Some("guided_json")),
            (with("structured_outputs", json!({ "regex": "a" })), Some("structured_outputs")),
            (with("stop", json!([""])), Some("stop")),
            (with("top_logprobs", json!(2)), Some("top_logprobs")),
            (with("min_p", json!(0.1)), Some("min_p")),
            (with("repetition_penalty", json!(1.2)), Some("repetition_penalty")),
            (with("min_tokens", json!(1)), Some("min_tokens")),
            (with("ignore_eos", json!(true)), Some("ignore_eos")),
            (with("stop_token_ids", json!([7])), Some("stop_token_ids")),
            (with("bad_words", json!(["a"])), Some("bad_words")),
            (with("chat_template_kwargs", json!("a")), Some("chat_template_kwargs")),
            (
                message_with_part("user", json!({ "type": "image_url", "image_url": { "url": "u" } })),
                Some("messages[0].content[1].type"),
            ),
            (message_with_part("tool", json!({ "type": "image", "data": "d" })), Some("messages[0].content[1].type")),
            (
                message_with_part("user", json!({ "type": "refusal", "refusal": "r" })),
                Some("messages[0].content[1].type"),
            ),
            (message_with_part("user", json!({ "text": "r" })), Some("messages[0].content[1].type")),
            (message_with_part("user", json!({ "type": "text" })), Some("messages[0].content[1].text")),
            (
                message_with_part("assistant", json!({ "type": "refusal", "refusal": 7 })),
                Some("messages[0].content[1].refusal"),
            ),
        ] {
            let (found, message) = read_value(body.clone()).expect_err(&body.to_string());
            assert_eq!(found.as_deref(), parameter, "{body}: {message}");
        }
    }

    #[test]
    fn what_changes_nothing_is_taken() {
        let mut body = with("n", json!(1));
        body["presence_penalty"] = json!(0);
        body["tools"] = json!([]);
        body["user"] = json!("someone");
        body["top_k"] = json!(-1);
        body["max_tokens"] = json!(5);
        let neutral = json!({ "min_p": 0, "repetition_penalty": 1, "ignore_eos": false, "chat_template_kwargs": null });
        body.as_object_mut().unwrap().extend(neutral.as_object().unwrap().clone());
        let wanted = read_value(body).unwrap();
        assert_eq!((wanted.options.max_tokens, wanted.options.sampling), (Some(5), SamplingParameters::default()));
        let mut kept = neutral;
        kept["user"] = json!("someone");
        assert_eq!(json!(wanted.extra), kept);
    }
}
