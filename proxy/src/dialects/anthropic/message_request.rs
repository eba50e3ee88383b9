use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::content_blocks::EagerCalls;
use super::conversation::{WireContent, WireMessage, conversation};
use super::error::RequestId;
use super::reply::MessageReply;
use super::tools::{ToolFields, Tools};
use crate::dialects::field_checks::{Neutral, check_other_hosts_fields, refuse, sampling, stop_strings, token_limit};
use crate::dialects::field_kinds::left_out;
use crate::dialects::object_fields::{MESSAGES_TOOL_CHOICE, OF_MESSAGES};
use crate::dialects::openai::response_format;
use crate::error::ProxyError;
use crate::requests::exact_json::ExactValues;
use crate::requests::left_out::LeftOut;
use crate::requests::model_request::{AnswerOptions, CallIds, Endpoint, ModelRequest, Prompt};
use crate::requests::request_body::{digest, read_fields};
use crate::requests::structured_output::{JsonForm, StructuredOutput};

/// The span has the name by which Agent-lightning's adapters look for model calls.
const MESSAGES: Endpoint = Endpoint {
    span_name: "openai.chat.completion",
    operation_name: "chat",
    id_prefix: "msg_",
    prompt_field: "messages",
    call_ids: CallIds::Seeded,
};

/// The fields of a request that we act on.
#[derive(Debug, Deserialize)]
struct MessageFields {
    max_tokens: Option<u32>,
    stream: Option<bool>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i64>,
    stop_sequences: Option<Vec<String>>,
    seed: Option<i64>,
    return_token_ids: Option<bool>,
}

/// The fields of a request that make its prompt.
#[derive(Debug, Deserialize)]
struct PromptFields {
    model: String,
    system: Option<WireContent>,
    messages: Vec<WireMessage>,
}

/// A request's prompt, which is also counted alone.
#[derive(Debug)]
pub(crate) struct MessagePrompt {
    pub(crate) model: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Tools,
    /// Of `tool_choice`.
    left_out: LeftOut,
    /// Every other field.
    pub(crate) rest: Map<String, Value>,
}

/// Reads and checks what makes a prompt, in which `exact` has what was rounded.
pub(crate) fn read_prompt(mut body: Map<String, Value>, exact: &ExactValues) -> Result<MessagePrompt, ProxyError> {
    let PromptFields { model, system, messages } = read_fields(&mut body)?;
    let tools: ToolFields = read_fields(&mut body)?;
    refuse_unsupported(&body)?;
    let mut left_out = LeftOut::default();
    left_out.look_into("tool_choice", tools.tool_choice.as_ref(), MESSAGES_TOOL_CHOICE);
    let (messages, tools) = (conversation(system, messages, exact)?, tools.check()?);
    Ok(MessagePrompt { model, messages, tools, left_out, rest: body })
}

/// Messages and tools of an unchecked request, in which `exact` has what was rounded; `None` if its messages cannot be read.
/// Content that has no form in a chat, such as images, stays as it is.
pub(crate) fn conversation_of(body: &Map<String, Value>, exact: &ExactValues) -> Option<(Vec<Message>, Vec<Value>)> {
    let fields: PromptFields = read_fields(&mut body.clone()).ok()?;
    let tools = body.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let declared = ToolFields { tools: Some(tools.clone()), tool_choice: None };
    let tools = declared.check().map_or(tools, |declared| [declared.shown, declared.ignored].concat());
    if let Ok(messages) = conversation(fields.system, fields.messages, exact) {
        return Some((messages, tools));
    }
    let system = body.get("system").filter(|system| !system.is_null());
    let system = system.map(|system| json!({ "role": "system", "content": system }));
    let messages = system.into_iter().chain(body.get("messages")?.as_array()?.iter().cloned());
    let messages = messages.map(|message| serde_json::from_value(message).ok());
    Some((messages.collect::<Option<_>>()?, tools))
}

/// Reads and checks a Messages request, whose response has that id. `streams_calls` says whether calls are streamed as they
/// are sampled, of tools that do not say it themselves, and `exact` has what was rounded.
pub(crate) fn read(
    body: Map<String, Value>,
    exact: &ExactValues,
    streams_calls: bool,
    request_id: RequestId,
) -> Result<ModelRequest, ProxyError> {
    let digest = exact.digest(digest(&body));
    let mut prompt = read_prompt(body, exact)?;
    if prompt.messages.last().is_some_and(Message::is_assistant) {
        refuse("messages", "must not end with the assistant's: no answer can be begun for this model")?;
    }
    let fields: MessageFields = read_fields(&mut prompt.rest)?;
    if fields.max_tokens.is_none() {
        refuse("max_tokens", "is required")?;
    }
    let form = StructuredOutput {
        json: output_format(&prompt.rest)?,
        call: prompt.tools.call,
        single_call: prompt.tools.single_call,
    };
    let options = AnswerOptions {
        form,
        sets_temperature: fields.temperature.is_some(),
        sampling: sampling(fields.temperature, fields.top_p, fields.top_k)?,
        max_tokens: token_limit("max_tokens", fields.max_tokens)?,
        stop_strings: stop_strings("stop_sequences", fields.stop_sequences.unwrap_or_default())?,
        logprobs: false,
        top_logprobs: 0,
        choices: 1,
    };
    let mut left_out = left_out(&prompt.rest, OF_MESSAGES);
    left_out.extend(prompt.left_out);
    let shows_thinking = shows_thinking(prompt.rest.get("thinking"))?;
    let eager_calls = EagerCalls { by_default: streams_calls, of_tools: prompt.tools.eager };
    Ok(ModelRequest {
        endpoint: &MESSAGES,
        model: prompt.model,
        prompt: Prompt::conversation(prompt.messages, prompt.tools.shown),
        options,
        stream: fields.stream.unwrap_or(false),
        return_token_ids: fields.return_token_ids.unwrap_or(false),
        seed: fields.seed,
        ignored_tools: prompt.tools.ignored,
        left_out,
        extra: prompt.rest,
        digest,
        reply: Box::new(MessageReply { shows_thinking, eager_calls, request_id }),
    })
}

/// Whether the client requested the model's thinking. Clients that did not often take the first block for the answer's
/// text.
fn shows_thinking(thinking: Option<&Value>) -> Result<bool, ProxyError> {
    let Some(thinking) = thinking.filter(|thinking| !thinking.is_null()) else { return Ok(false) };
    match thinking.get("type").and_then(Value::as_str) {
        Some("disabled") => Ok(false),
        Some("enabled" | "adaptive" | "between_tools") => Ok(thinking.get("display") != Some(&"omitted".into())),
        _ => Err(ProxyError::invalid(
            "thinking",
            format!("thinking: {thinking} is not known; its type is enabled, adaptive, between_tools or disabled"),
        )),
    }
}

/// What form the answer's text is to have, under the newer name or the older one.
fn output_format(rest: &Map<String, Value>) -> Result<Option<JsonForm>, ProxyError> {
    let format = rest.get("output_config").and_then(|config| config.get("format"));
    match response_format::read("output_config.format", format)? {
        Some(form) => Ok(Some(form)),
        None => response_format::read("output_format", rest.get("output_format")),
    }
}

/// Refuses by name what changes an answer and cannot be honoured.
fn refuse_unsupported(rest: &Map<String, Value>) -> Result<(), ProxyError> {
    check_other_hosts_fields(rest)?;
    if rest.get("output_config").is_some_and(|config| !(config.is_object() || config.is_null())) {
        refuse("output_config", "must be an object")?;
    }
    if rest.get("mcp_servers").is_some_and(|servers| !(servers.is_null() || Neutral::Empty.is(servers))) {
        refuse("mcp_servers", "are not supported: no server is called from here")?;
    }
    Ok(())
}
