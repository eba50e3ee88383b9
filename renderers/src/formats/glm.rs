use std::borrow::Cow;
use std::collections::HashMap;

use fulgurite_types::{Message, Tool, ToolCall};
use serde_json::{Map, Value};

use crate::chat_message::{ChatContent, ChatMessage};
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::python_strip::trimmed_cow;
use crate::formats::qwen::qwen_tools::{ValueStyle, arguments};
use crate::formats::reasoning::{is_reasoning, single_text, split_reasoning};
use crate::python::python_json::{JsonStyle, dumps};
use crate::python::python_text::as_object;
use crate::tools::call_arguments::arguments_text;
use crate::{RenderError, ResponseFormat};

const NAME: &str = "glm5_3";
const SYSTEM: &str = "<|system|>";
const USER: &str = "<|user|>";
const OBSERVATION: &str = "<|observation|>";
/// The assistant's role, and what its turn is made to begin with.
const ASSISTANT: &str = "<|assistant|><think>";
const THINK_CLOSE: &str = "</think>";

/// How arguments are written: text as it is, everything else as JSON.
const VALUES: ValueStyle = ValueStyle { cookbook_exact: false, python_scalars: false };

/// GLM-5.3: `<|user|>{content}` and `<|assistant|><think>{reasoning}</think>{content}`, without an end of message. The
/// model ends its turn with the role of the message that it expects: `<|observation|>` behind calls, else `<|user|>`.
/// That token is written once, by the turn.
///
/// Reasoning always stays. The prompt begins with how much to reason, then come the tools in a message of their own.
#[derive(Debug)]
pub(crate) struct Glm {
    effort: &'static str,
    /// Write what tinker-cookbook writes, faults included.
    cookbook_exact: bool,
}

impl Glm {
    pub(crate) fn named(name: &str, cookbook_exact: bool) -> Option<Self> {
        let effort = match name {
            "glm5_3_max_reasoning" => "Max",
            "glm5_3_high_reasoning" => "High",
            "glm5_3_low_reasoning" => "Low",
            _ => return None,
        };
        Some(Self { effort, cookbook_exact })
    }

    /// The text of a message that is not the assistant's.
    fn text<'m>(&self, message: &ChatMessage<'m>, message_index: usize) -> Result<Chunk<'m>, RenderError> {
        let refused = match &message.content {
            _ if !message.tool_calls.is_empty() && !self.cookbook_exact => "calls of tools",
            ChatContent::Parts(parts) if parts.iter().any(is_reasoning) => "reasoning",
            _ => return Ok(Chunk::default().content(message.visible_text())),
        };
        let message = format!("the {NAME} format cannot write {refused} of the role `{}`", message.role);
        Err(RenderError::Message { message_index, message })
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let (reasoning, text) = self.reasoning_and_text(message);
        let content = Chunk::default().content(reasoning).format(THINK_CLOSE).content(trimmed_cow(text));
        let content = message
            .tool_calls
            .iter()
            .try_fold(content, |content, call| self.call(call, index).map(|call| content.join(call)))?;
        let (end, stop_overlap) = match conversation.is_last(index) {
            true => ("", Chunk::of_format(turn_end(message))),
            false => (self.shared_turn_end(conversation, index + 1).unwrap_or_default(), Chunk::default()),
        };
        Ok(RenderedMessage { header: Chunk::of_format(ASSISTANT), output: vec![content.format(end)], stop_overlap })
    }

    /// Reasoning may stand in a text. The cookbook looks for it in strings alone, and takes as text what follows the
    /// last `</think>`; ours loses nothing of what follows the first.
    fn reasoning_and_text<'m>(&self, message: &ChatMessage<'m>) -> (Cow<'m, str>, Cow<'m, str>) {
        let text = match &message.content {
            ChatContent::Parts(_) if self.cookbook_exact => None,
            content => single_text(content),
        };
        match text.and_then(split_reasoning) {
            Some((reasoning, rest)) if self.cookbook_exact => {
                let rest = rest.rsplit_once(THINK_CLOSE).map_or(rest, |(_, last)| last);
                (reasoning.into(), rest.into())
            }
            Some((reasoning, rest)) => (reasoning.into(), rest.into()),
            None => (message.reasoning(), message.visible_text()),
        }
    }

    /// `<tool_call>NAME<arg_key>KEY</arg_key><arg_value>VALUE</arg_value></tool_call>`. Arguments that are no object stand
    /// in place of the pairs as they came; the cookbook refuses them.
    fn call<'m>(&self, call: &'m ToolCall, message_index: usize) -> Result<Chunk<'m>, RenderError> {
        let chunk = Chunk::of_format("<tool_call>").content(&*call.function.name);
        let read = match arguments(call, message_index) {
            Err(error) if self.cookbook_exact => return Err(error),
            read => read.unwrap_or_default(),
        };
        let chunk = match as_object(&read) {
            Some(object) => object.fields().iter().fold(chunk, |chunk, (key, value)| {
                let chunk = chunk.format("<arg_key>").content(key.as_str().to_owned()).format("</arg_key>");
                chunk.format("<arg_value>").content(VALUES.argument(value)).format("</arg_value>")
            }),
            None if self.cookbook_exact => {
                let message = format!("the arguments of the call of `{}` are not a JSON object", call.function.name);
                return Err(RenderError::Message { message_index, message });
            }
            None => chunk.content(arguments_text(&call.function)),
        };
        Ok(chunk.format("</tool_call>"))
    }
}

impl Format for Glm {
    fn beginning(&self) -> Chunk<'static> {
        Chunk::of_format(format!("[gMASK]<sop><|system|>Reasoning Effort: {}", self.effort))
    }

    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let turn_is_open = self.shared_turn_end(conversation, index).is_some();
        let (header, output) = match message.role {
            "assistant" => return self.assistant(conversation, index),
            // What `declare_tools` puts first.
            "system" if index == 0 && !conversation.tools().is_empty() => (SYSTEM, tools(conversation.tools())),
            "system" => (SYSTEM, self.text(message, index)?),
            "user" => (if turn_is_open { "" } else { USER }, self.text(message, index)?),
            "tool" => {
                let turn_is_open =
                    turn_is_open || conversation.before(index).is_some_and(|before| before.role == "tool");
                let result = Chunk::of_format("<tool_response>").join(self.text(message, index)?);
                (if turn_is_open { "" } else { OBSERVATION }, result.format("</tool_response>"))
            }
            role => {
                let message = format!("the {NAME} format has no role `{role}`");
                return Err(RenderError::Message { message_index: index, message });
            }
        };
        Ok(RenderedMessage { header: Chunk::of_format(header), output: vec![output], ..RenderedMessage::default() })
    }

    fn generation_prompt(&self, _: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        Ok(vec![Chunk::of_format(ASSISTANT)])
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        &[USER, OBSERVATION, "<|endoftext|>"]
    }

    /// Nothing but the role of what follows ends a turn.
    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::default()
    }

    fn shared_turn_end(&self, conversation: &Conversation<'_>, index: usize) -> Option<&'static str> {
        let role = match conversation.messages().get(index)?.role {
            "user" => USER,
            "tool" => OBSERVATION,
            _ => return None,
        };
        let turn = conversation.before(index).filter(|before| before.is_assistant())?;
        (turn_end(turn) == role).then_some(role)
    }

    /// The tools have a message of their own before the system's.
    fn declare_tools(&self, _: &[Tool<'_>], system: &str) -> Result<Vec<Message>, RenderError> {
        let mut declared = vec![Message::text("system", "")];
        if !system.is_empty() {
            declared.push(Message::text("system", system));
        }
        Ok(declared)
    }

    /// Results of tools in a row are put in the order of their calls where ids tell it.
    fn complete<'m>(&self, messages: Vec<Cow<'m, Message>>, _: bool) -> Vec<Cow<'m, Message>> {
        let mut ordered = Vec::with_capacity(messages.len());
        let mut results = Vec::new();
        for message in messages {
            if message.role == "tool" {
                results.push(message);
            } else {
                push_in_order(std::mem::take(&mut results), &mut ordered);
                ordered.push(message);
            }
        }
        push_in_order(results, &mut ordered);
        ordered
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::Glm
    }

    fn cookbook_split(&self) -> CookbookSplit {
        CookbookSplit::Whole
    }
}

/// The token that ends a turn of the assistant: the role of what it expects next.
fn turn_end(turn: &ChatMessage<'_>) -> &'static str {
    if turn.tool_calls.is_empty() { USER } else { OBSERVATION }
}

/// Adds results of tools, in the order of the calls of the last message where it is known.
fn push_in_order<'m>(results: Vec<Cow<'m, Message>>, ordered: &mut Vec<Cow<'m, Message>>) {
    let calling = ordered.last().filter(|last| last.is_assistant());
    match calling.and_then(|calling| places(&calling.tool_calls, &results)) {
        Some(places) => {
            let mut placed: Vec<(usize, Cow<'m, Message>)> = places.into_iter().zip(results).collect();
            placed.sort_by_key(|(place, _)| *place);
            ordered.extend(placed.into_iter().map(|(_, result)| result));
        }
        None => ordered.extend(results),
    }
}

/// Which call each result answers. None unless all calls have ids of their own and each result answers another of them.
fn places(calls: &[ToolCall], results: &[Cow<'_, Message>]) -> Option<Vec<usize>> {
    let mut unanswered: HashMap<&str, usize> = HashMap::with_capacity(calls.len());
    for (place, call) in calls.iter().enumerate() {
        let id = call.id.as_deref().filter(|id| !id.is_empty())?;
        if unanswered.insert(id, place).is_some() {
            return None;
        }
    }
    results.iter().map(|result| unanswered.remove(result.tool_call_id.as_deref()?)).collect()
}

/// What explains the tools. Those that are to be loaded later are left out, as the model's chat template does.
fn tools(tools: &[Tool<'_>]) -> Chunk<'static> {
    let chunk = Chunk::of_format(
        "\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
         You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
    );
    let is_shown = |tool: &&Tool<'_>| !tool.function.get("defer_loading").is_some_and(is_true);
    let chunk = tools.iter().filter(is_shown).fold(chunk, |chunk, tool| chunk.content(declaration(tool)).format("\n"));
    chunk.format(
        "</tools>\n\nFor each function call, output the function name and arguments within the following XML format:\n\
         <tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>\
         <arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>",
    )
}

/// A function as JSON, without what says how it is served.
fn declaration(tool: &Tool<'_>) -> String {
    let is_written = |(key, _): &(&String, &Value)| !["defer_loading", "strict"].contains(&key.as_str());
    let fields = tool.function.iter().filter(is_written).map(|(key, value)| (key.clone(), value.clone()));
    let style = JsonStyle { ensure_ascii: false, ..JsonStyle::default() };
    dumps(&Value::Object(fields.collect::<Map<String, Value>>()), &style)
}

/// Whether Python takes a value as true.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is_true) => *is_true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}
