use fulgurite_types::Message;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::earlier_responses::EarlierResponses;
use super::input_items::messages_of;
use super::output_items::{ReasoningForm, is_included};
use super::record_marks::mark_instructions;
use super::reply::ResponseReply;
use super::response_object::echo;
use super::tool_forms::TOOL_FORMS;
use super::tools::DeclaredTools;
use crate::dialects::field_checks::{check_other_hosts_fields, refuse, sampling, token_limit};
use crate::dialects::field_kinds::left_out;
use crate::dialects::object_fields::{OF_RESPONSES, TOOL_CHOICE};
use crate::dialects::openai::response_format;
use crate::dialects::openai::sampling_fields::MAXIMUM_TOP_LOGPROBS;
use crate::dialects::openai::tool_fields::ToolChoice;
use crate::error::ProxyError;
use crate::requests::left_out::LeftOut;
use crate::requests::model_request::{AnswerOptions, CallIds, Endpoint, ModelRequest, Prompt};
use crate::requests::request_body::{digest, read_fields};
use crate::requests::structured_output::StructuredOutput;

/// Readers of spans find the call by the name that a chat's has.
pub(super) const RESPONSES: Endpoint = Endpoint {
    span_name: "openai.chat.completion",
    operation_name: "chat",
    id_prefix: "resp_",
    prompt_field: "input",
    call_ids: CallIds::Seeded,
};

/// The fields that change the model's input or sampling; all others are in `rest`.
#[derive(Debug, Deserialize)]
struct ResponseFields {
    model: String,
    #[serde(default)]
    input: Value,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    max_output_tokens: Option<u32>,
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<i64>,
    seed: Option<i64>,
    top_logprobs: Option<usize>,
    stream: Option<bool>,
    return_token_ids: Option<bool>,
    #[serde(skip)]
    rest: Map<String, Value>,
}

/// What `include` may name that an answer comes with.
const INCLUDED: [&str; 2] = ["message.output_text.logprobs", "reasoning.encrypted_content"];

/// What it may name of the items of OpenAI's own tools, and of images: nothing here has them.
const OF_OTHER_ITEMS: [&str; 6] = [
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
];

/// Reads and checks a request, which continues the `earlier` responses that it names.
pub(crate) fn read(mut body: Map<String, Value>, earlier: &EarlierResponses) -> Result<ModelRequest, ProxyError> {
    let (digest, mut extra) = (digest(&body), recorded_extra(&body));
    let (echo, reasoning) = (echo(&body), ReasoningForm::requested_in(&body));
    let logprobs = is_included(&body, "message.output_text.logprobs");
    let fields: ResponseFields = read_fields(&mut body)?;
    let fields = ResponseFields { rest: body, ..fields };
    fields.refuse_unsupported()?;
    let previous = fields.previous_response_id.as_deref();
    let messages = conversation_of(fields.instructions.as_deref(), previous, &fields.input, earlier)?;
    let mut tools = DeclaredTools::read(fields.tools.clone().unwrap_or_default())?;
    add_found_tools(&mut tools, &fields.input)?;
    if !tools.forms.is_empty() {
        extra.insert(TOOL_FORMS.to_owned(), json!(tools.forms));
    }
    let reply = ResponseReply { echo, reasoning, tools: tools.forms, logprobs };
    let choice = ToolChoice::read(fields.tool_choice.as_ref())?;
    let functions = choice.shown(tools.functions)?;
    let json = response_format::read("text.format", fields.rest.get("text").and_then(|text| text.get("format")))?;
    // That calls shall not be parallel stays a wish: agents send it with every request.
    let form = StructuredOutput { json, call: choice.call, single_call: None };
    Ok(ModelRequest {
        endpoint: &RESPONSES,
        options: fields.options(form, reply.logprobs)?,
        prompt: Prompt::conversation(messages, functions),
        stream: fields.stream.unwrap_or(false),
        return_token_ids: fields.return_token_ids.unwrap_or(false),
        seed: fields.seed,
        ignored_tools: tools.ignored,
        left_out: fields.left_out()?,
        digest,
        reply: Box::new(reply),
        extra,
        model: fields.model,
    })
}

/// Messages and tools of an unchecked request; `None` if they have no form in a chat.
pub(crate) fn conversation(body: &Map<String, Value>) -> Option<(Vec<Message>, Vec<Value>)> {
    let instructions = body.get("instructions").and_then(Value::as_str);
    let mut messages: Vec<Message> = instructions.map(|text| Message::text("system", text)).into_iter().collect();
    messages.extend(messages_of(body.get("input").unwrap_or(&Value::Null), &EarlierResponses::default()).ok()?);
    let tools = body.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
    let DeclaredTools { functions, ignored, .. } = DeclaredTools::read(tools).ok()?;
    Some((messages, [functions, ignored].concat()))
}

/// Declares the tools that the client's own search has found, each once.
fn add_found_tools(tools: &mut DeclaredTools, input: &Value) -> Result<(), ProxyError> {
    for (item, fields) in input.as_array().into_iter().flatten().enumerate() {
        if fields.get("type").is_none_or(|kind| kind != "tool_search_output") {
            continue;
        }
        for (index, tool) in fields.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate() {
            if !tools.has(tool) {
                tools.add(&format!("input[{item}].tools[{index}]"), tool.clone())?;
            }
        }
    }
    Ok(())
}

impl ResponseFields {
    fn refuse_unsupported(&self) -> Result<(), ProxyError> {
        check_other_hosts_fields(&self.rest)?;
        if self.rest.get("background").is_some_and(|background| *background == true) {
            refuse("background", "true is not supported: a response is given to whoever asks for it")?;
        }
        for field in ["reasoning", "text"] {
            if self.rest.get(field).is_some_and(|value| !(value.is_object() || value.is_null())) {
                refuse(field, "must be an object")?;
            }
        }
        refuse_stored(&self.rest)
    }

    /// The fields that are left out of account, and the words of `include`.
    fn left_out(&self) -> Result<LeftOut, ProxyError> {
        let field = "include";
        let no_list = || ProxyError::invalid(field, "include must be a list of strings");
        let words = match self.rest.get(field) {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(words)) => words,
            Some(_) => return Err(no_list()),
        };
        let mut left = left_out(&self.rest, OF_RESPONSES);
        left.look_into("tool_choice", self.tool_choice.as_ref(), TOOL_CHOICE);
        for word in words {
            let word = word.as_str().ok_or_else(no_list)?;
            match (INCLUDED.contains(&word), OF_OTHER_ITEMS.contains(&word)) {
                (true, _) => {}
                (false, true) => left.hints.push(format!("{field}.{word}")),
                (false, false) => left.unknown.push(format!("{field}.{word}")),
            }
        }
        Ok(left)
    }

    fn options(&self, form: StructuredOutput, logprobs: bool) -> Result<AnswerOptions, ProxyError> {
        let top_logprobs = self.top_logprobs.unwrap_or(0);
        if top_logprobs > MAXIMUM_TOP_LOGPROBS {
            refuse("top_logprobs", &format!("must be at most {MAXIMUM_TOP_LOGPROBS}"))?;
        }
        Ok(AnswerOptions {
            sets_temperature: self.temperature.is_some(),
            sampling: sampling(self.temperature, self.top_p, self.top_k)?,
            form,
            max_tokens: token_limit("max_output_tokens", self.max_output_tokens)?,
            stop_strings: Vec::new(),
            logprobs,
            top_logprobs,
            choices: 1,
        })
    }
}

/// Refuses what OpenAI's servers store, and this one does not.
pub(super) fn refuse_stored(rest: &Map<String, Value>) -> Result<(), ProxyError> {
    for (field, instead) in [
        ("conversation", "send the conversation's items, or previous_response_id"),
        ("prompt", "send instructions and input themselves"),
    ] {
        if rest.get(field).is_some_and(|value| !value.is_null()) {
            refuse(field, &format!("is not supported, for no such thing is stored here; {instead}"))?;
        }
    }
    Ok(())
}

/// A request's conversation: the instructions, the messages up to the end of the previous response, and the new ones.
pub(super) fn conversation_of(
    instructions: Option<&str>,
    previous_response_id: Option<&str>,
    input: &Value,
    earlier: &EarlierResponses,
) -> Result<Vec<Message>, ProxyError> {
    let mut messages: Vec<Message> =
        instructions.into_iter().map(|instructions| Message::text("system", instructions)).collect();
    if let Some(previous) = previous_response_id {
        messages.extend(earlier.conversation(previous)?);
    }
    let new = messages_of(input, earlier)?;
    if new.is_empty() && previous_response_id.is_none() {
        refuse("input", "must hold at least one item")?;
    }
    messages.extend(new);
    Ok(messages)
}

/// The fields of a body that are recorded: those that are not recorded otherwise, and those that a response repeats.
pub(super) fn recorded_extra(body: &Map<String, Value>) -> Map<String, Value> {
    let read_fields = ["model", "input", "instructions", "tools", "stream"];
    let rest = body.iter().filter(|(field, _)| !read_fields.contains(&field.as_str()));
    let mut extra: Map<String, Value> = rest.map(|(field, value)| (field.clone(), value.clone())).collect();
    if body.get("instructions").is_some_and(|instructions| !instructions.is_null()) {
        mark_instructions(&mut extra);
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_value(body: Value) -> Result<ModelRequest, (Option<String>, String)> {
        let body = body.as_object().cloned().unwrap();
        read(body, &EarlierResponses::default()).map_err(|error| match error {
            ProxyError::InvalidRequest { message, parameter, .. } => (parameter, message),
            other => panic!("{other:?}"),
        })
    }

    fn with(key: &str, value: Value) -> Value {
        let mut body = json!({ "model": "m", "input": "hi" });
        body[key] = value;
        body
    }

    #[test]
    fn every_fault_names_its_field() {
        for (body, parameter) in [
            (json!({ "input": "hi" }), None),
            (json!({ "model": "m" }), Some("input")),
            (with("input", json!([])), Some("input")),
            (with("instructions", json!(["x"])), Some("instructions")),
            (with("previous_response_id", json!("resp_1")), Some("previous_response_id")),
            (with("background", json!(true)), Some("background")),
            (with("min_p", json!(0.1)), Some("min_p")),
            (with("chat_template_kwargs", json!([])), Some("chat_template_kwargs")),
            (with("conversation", json!("conv_1")), Some("conversation")),
            (with("prompt", json!({ "id": "pmpt_1" })), Some("prompt")),
            (with("text", json!({ "format": { "type": "json_schema" } })), Some("text.format.schema")),
            (with("text", json!({ "format": { "type": "grammar" } })), Some("text.format")),
            (with("tools", json!([{ "type": "function" }])), Some("tools[0].name")),
            (with("tool_choice", json!("perhaps")), Some("tool_choice")),
            (with("tool_choice", json!({ "type": "web_search" })), Some("tool_choice")),
            (with("max_output_tokens", json!(0)), Some("max_output_tokens")),
            (with("temperature", json!(3)), Some("temperature")),
            (with("top_p", json!(0)), Some("top_p")),
            (with("top_logprobs", json!(21)), Some("top_logprobs")),
        ] {
            let (found, message) = read_value(body.clone()).expect_err(&body.to_string());
            assert_eq!(found.as_deref(), parameter, "{body}: {message}");
        }
    }

    #[test]
    fn what_agents_always_send_is_taken_and_kept() {
        let body = json!({
            "model": "m",
            "input": [{ "type": "message", "role": "developer", "content": "Be brief." }, { "role": "user", "content": "hi" }],
            "instructions": "You are careful.",
            "tools": [{ "type": "function", "name": "f", "parameters": null, "strict": true }, { "type": "web_search" }],
            "tool_choice": "auto", "parallel_tool_calls": false, "store": false, "stream": true,
            "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "client_metadata": { "a": "b" },
            "reasoning": { "effort": "low", "summary": "auto" }, "text": { "verbosity": "low" }, "background": false,
            "truncation": "auto", "metadata": null, "temperature": 0.5, "max_output_tokens": 9,
        });
        let request = read_value(body).unwrap();
        let Prompt::Messages(conversation) = &request.prompt else { panic!("{:?}", request.prompt) };
        let roles: Vec<&str> = conversation.messages.iter().map(|message| message.role.as_str()).collect();
        assert_eq!(roles, ["system", "developer", "user"]);
        let function = json!({ "type": "function", "function": { "name": "f", "strict": true } });
        assert_eq!(conversation.tools, [function]);
        assert_eq!(json!(request.ignored_tools), json!([{ "type": "web_search" }]));
        assert_eq!((request.options.max_tokens, request.options.sampling.temperature), (Some(9), 0.5));
        assert!(request.stream);
        assert_eq!(request.left_out, LeftOut::default());
        for field in ["parallel_tool_calls", "store", "client_metadata", "reasoning", "truncation", "prompt_cache_key"]
        {
            assert!(request.extra.contains_key(field), "{field}");
        }
    }

    #[test]
    fn with_tool_choice_none_the_model_is_shown_no_tools() {
        let mut body = with("tools", json!([{ "type": "function", "name": "f" }]));
        body["tool_choice"] = json!("none");
        let Prompt::Messages(conversation) = read_value(body).unwrap().prompt else { panic!() };
        assert!(conversation.tools.is_empty());
    }
}
