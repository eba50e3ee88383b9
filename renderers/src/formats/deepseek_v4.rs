use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use fulgurite_types::{Tool, ToolCall};
use serde_json::Value;

use crate::chat_message::{ChatMessage, ChatPart};
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::plain_text::PlainText;
use crate::formats::qwen::qwen_tools::{ValueStyle, arguments};
use crate::formats::reasoning::parts_with_reasoning;
use crate::python::python_json::{JsonStyle, dumps};
use crate::python::python_text::{as_object, from_json_text};
use crate::tools::call_arguments::arguments_text;
use crate::{RenderError, ResponseFormat};

const NAME: &str = "deepseekv4_1";
const END: &str = "<｜end▁of▁sentence｜>";
const SYSTEM: &str = "<｜System｜>";
const USER: &str = "<｜User｜>";
const ASSISTANT: &str = "<｜Assistant｜>";
const THINK_OPEN: &str = "<think>";
const THINK_CLOSE: &str = "</think>";

/// What explains the tools, up to their declarations and behind them.
const TOOLS: [&str; 2] = [
    "\n\n## Tools\n\nYou have access to a set of tools to help answer the user's question. You can invoke tools by \
     writing a \"<｜DSML｜ calls>\" block like the following:\n\n\
     <｜DSML｜ calls>\n<｜DSML｜ invoke name=\"$TOOL_NAME\">\n\
     <｜DSML｜ parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</｜DSML｜ parameter>\n...\n\
     </｜DSML｜ invoke>\n<｜DSML｜ invoke name=\"$TOOL_NAME2\">\n...\n</｜DSML｜ invoke>\n</｜DSML｜ calls>\n\n\
     String parameters should be specified as is and set `string=\"true\"`. For all other types (numbers, booleans, \
     arrays, objects), pass the value in JSON format and set `string=\"false\"`.\n\n\
     If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside \
     <think>...</think> BEFORE any tool calls or final response.\n\n\
     Otherwise, output directly after </think> with tool calls or final response.\n\n\
     ### Available Tool Schemas\n\n",
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n",
];

/// How arguments are written: text as it is, everything else as JSON.
const VALUES: ValueStyle = ValueStyle { cookbook_exact: false, python_scalars: false };

/// DeepSeek V4.1: `<｜System｜>`, `<｜User｜>` and `<｜Assistant｜>`, of which the assistant's turn alone has an end. A
/// prompt for reasoning begins with how much to reason, in the system message, which explains the tools too.
///
/// Results of tools and what the user says beside them are one turn of the user, without breaks between tokens.
#[derive(Debug)]
pub(crate) struct DeepSeekV4 {
    /// How much to reason, of 100. None where the model is not to reason.
    effort: Option<u8>,
    /// Whether reasoning before the last turn of the user is left out where no tools are declared.
    strips_thinking: bool,
    /// Write what tinker-cookbook writes, faults included.
    cookbook_exact: bool,
}

impl DeepSeekV4 {
    pub(crate) fn named(name: &str, strips_thinking: bool, cookbook_exact: bool) -> Option<Self> {
        let (effort, strips_thinking) = match name {
            "deepseekv4_1" => (Some(75), strips_thinking),
            "deepseekv4_1_low_reasoning" => (Some(50), strips_thinking),
            "deepseekv4_1_max_reasoning" => (Some(100), strips_thinking),
            "deepseekv4_1_disable_thinking" => (None, strips_thinking),
            "deepseekv4_1_preserve_thinking" if strips_thinking => (Some(75), false),
            _ => return None,
        };
        Some(Self { effort, strips_thinking, cookbook_exact })
    }

    fn thinks(&self) -> bool {
        self.effort.is_some()
    }

    /// The text that says how much to reason.
    fn effort_text(&self) -> String {
        let line = |effort| {
            format!(
                "Reasoning Effort: {effort} (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
            )
        };
        self.effort.map(line).unwrap_or_default()
    }

    /// What stands before the first message that is not the system's.
    fn opening(&self) -> String {
        if self.thinks() { format!("{SYSTEM}{}", self.effort_text()) } else { String::new() }
    }

    fn system<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let text = self.text(conversation, index)?;
        let output = match index {
            // One chunk: the line breaks between the effort and the text are one token with those of the text.
            0 => Chunk::of_format(self.effort_text()).content(text).join(tools(conversation.tools())),
            _ => Chunk::default().content(text),
        };
        Ok(RenderedMessage { header: Chunk::of_format(SYSTEM), output: vec![output], ..RenderedMessage::default() })
    }

    /// The text of a message that is not the assistant's.
    fn text(&self, conversation: &Conversation<'_>, index: usize) -> Result<String, RenderError> {
        let plain = PlainText { format: NAME, cookbook_exact: self.cookbook_exact };
        plain.of(conversation.at(index), index).map(|text| text.into_owned())
    }

    /// A turn of the user is written by its first message.
    fn user_turn<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        if conversation.before(index).is_some_and(is_of_user) {
            return Ok(RenderedMessage::default());
        }
        let messages = conversation.messages();
        let turn = messages.iter().enumerate().skip(index).take_while(|(_, message)| is_of_user(message));
        let count = turn.clone().count();
        let mut results = results_in_order(messages, index..index + count).into_iter();
        let mut output = Chunk::default();
        for (place, message) in turn {
            output = output.format(if place == index { "" } else { "\n\n" });
            let result = if message.role == "tool" { results.next() } else { None };
            output = match result {
                Some(result) => {
                    let text = self.text(conversation, result)?;
                    output.format("<tool_result>").content(text).format("</tool_result>")
                }
                None => output.content(self.text(conversation, place)?),
            };
        }
        let opening = if index == 0 { self.opening() } else { String::new() };
        let header = Chunk::of_format(opening).format(USER);
        Ok(RenderedMessage { header, output: vec![output], ..RenderedMessage::default() })
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let keeps_thinking = self.keeps_thinking(conversation, index);
        let parts = if self.cookbook_exact { message.parts() } else { parts_with_reasoning(message) };
        let body = match keeps_thinking {
            true => {
                parts.iter().filter_map(ChatPart::thinking).fold(Chunk::default(), Chunk::content).format(THINK_CLOSE)
            }
            false => Chunk::default(),
        };
        let body = parts.iter().filter_map(ChatPart::text).fold(body, Chunk::content);
        let output = body.join(self.calls(message.tool_calls, index)).format(END);
        let header = self.assistant_header(conversation, index, keeps_thinking);
        Ok(RenderedMessage { header, output: vec![output], ..RenderedMessage::default() })
    }

    /// The role of the assistant and what its turn is made to begin with.
    ///
    /// The model's chat template, and the cookbook with it, write the role behind a turn of the user alone. Ours writes it
    /// always, since nothing would ask for an answer that follows an answer or the first system message.
    fn assistant_header(&self, conversation: &Conversation<'_>, index: usize, thinks: bool) -> Chunk<'static> {
        let before = conversation.before(index);
        let follows_user = before.is_some_and(|before| is_of_user(before) || (before.role == "system" && index > 1));
        let header = Chunk::of_format(if index == 0 { self.opening() } else { String::new() });
        match follows_user || !self.cookbook_exact {
            true => header.format(ASSISTANT).format(if thinks { THINK_OPEN } else { THINK_CLOSE }),
            false => header,
        }
    }

    /// Whether an answer at `index` has its reasoning. All have it where tools are declared, else those alone that follow
    /// the last message of the user, of a tool, or of the system behind the first.
    fn keeps_thinking(&self, conversation: &Conversation<'_>, index: usize) -> bool {
        if !self.strips_thinking || !conversation.tools().is_empty() {
            return self.thinks();
        }
        let messages = conversation.messages().get(index..).unwrap_or_default();
        let ends_turn = |(offset, message): (usize, &ChatMessage<'_>)| {
            is_of_user(message) || (message.role == "system" && index + offset > 0)
        };
        self.thinks() && !messages.iter().enumerate().any(ends_turn)
    }

    /// `<｜DSML｜ calls>` with one `invoke` for each call and one `parameter` for each argument.
    fn calls<'m>(&self, calls: &'m [ToolCall], message_index: usize) -> Chunk<'m> {
        if calls.is_empty() {
            return Chunk::default();
        }
        let with_call = |chunk: Chunk<'m>, call: &'m ToolCall| {
            let chunk = chunk.format("<｜DSML｜ invoke name=\"").content(&*call.function.name).format("\">\n");
            let parameters = self.parameters(call, message_index).into_iter().enumerate();
            let chunk = parameters.fold(chunk, |chunk, (place, parameter)| {
                let chunk = chunk.format(if place == 0 { "" } else { "\n" }).format("<｜DSML｜ parameter name=\"");
                let kind = if parameter.is_text { "\" string=\"true\">" } else { "\" string=\"false\">" };
                chunk.content(parameter.key).format(kind).content(parameter.value).format("</｜DSML｜ parameter>")
            });
            chunk.format("\n</｜DSML｜ invoke>\n")
        };
        calls.iter().fold(Chunk::of_format("\n\n<｜DSML｜ calls>\n"), with_call).format("</｜DSML｜ calls>")
    }

    /// The arguments of a call; what is no JSON object is one argument of the name `arguments`. They may have been
    /// written as JSON twice.
    fn parameters(&self, call: &ToolCall, message_index: usize) -> Vec<Parameter> {
        let text = match &call.function.arguments {
            // The cookbook writes what is no object as it is.
            Value::String(text) if self.cookbook_exact => Cow::Borrowed(text.as_str()),
            _ => arguments_text(&call.function),
        };
        let read = match self.cookbook_exact && matches!(text.trim(), "" | "null") {
            true => None,
            false => arguments(call, message_index).ok(),
        };
        let within =
            read.as_ref().and_then(|read| from_json_text(read.as_str()?, &|text| minijinja::Value::from(text)));
        match within.or(read).as_ref().and_then(as_object) {
            Some(object) => {
                let fields = object.fields().iter();
                let parameters = fields.map(|(key, value)| Parameter {
                    key: key.as_str().to_owned(),
                    is_text: value.as_str().is_some(),
                    value: VALUES.argument(value),
                });
                parameters.collect()
            }
            None => vec![Parameter { key: "arguments".to_owned(), is_text: true, value: text.into_owned() }],
        }
    }
}

/// One argument of a call.
struct Parameter {
    key: String,
    /// Whether it is text, which is written as it is; all else is JSON.
    is_text: bool,
    value: String,
}

impl Format for DeepSeekV4 {
    fn beginning(&self) -> Chunk<'static> {
        Chunk::of_format("<｜begin▁of▁sentence｜>")
    }

    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        match conversation.at(index).role {
            "system" => self.system(conversation, index),
            "user" | "tool" => self.user_turn(conversation, index),
            "assistant" => self.assistant(conversation, index),
            role => {
                let message = format!("the {NAME} format has no role `{role}`");
                Err(RenderError::Message { message_index: index, message })
            }
        }
    }

    fn generation_prompt(&self, conversation: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        Ok(vec![self.assistant_header(conversation, conversation.messages().len(), self.thinks())])
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        &[END]
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format(END)
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::Dsml
    }

    fn disables_thinking(&self) -> bool {
        !self.thinks()
    }

    fn cookbook_split(&self) -> CookbookSplit {
        match self.thinks() && self.strips_thinking {
            true => CookbookSplit::ByMessage,
            false => CookbookSplit::Whole,
        }
    }

    fn cookbook_system_ends_turn(&self) -> bool {
        true
    }
}

/// Whether a message belongs to a turn of the user.
fn is_of_user(message: &ChatMessage<'_>) -> bool {
    matches!(message.role, "user" | "tool")
}

/// Where the results of tools of a turn stand, in the order of the calls that were made last. A result of no call counts
/// as that of the first.
fn results_in_order(messages: &[ChatMessage<'_>], turn: Range<usize>) -> Vec<usize> {
    let mut results: Vec<usize> = turn.clone().filter(|place| messages[*place].role == "tool").collect();
    if results.len() > 1 {
        let calling = messages[..turn.start].iter().rev().find(|message| !message.tool_calls.is_empty());
        let calls: &[ToolCall] = calling.map_or(&[], |calling| calling.tool_calls);
        let order: HashMap<&str, usize> =
            calls.iter().enumerate().filter_map(|(place, call)| Some((call.id.as_deref()?, place))).collect();
        let call_of = |place: &usize| messages[*place].tool_call_id.filter(|id| !id.is_empty());
        results.sort_by_key(|place| call_of(place).and_then(|id| order.get(id)).copied().unwrap_or_default());
    }
    results
}

/// What explains the tools at the end of the first system message.
fn tools<'t>(tools: &[Tool<'t>]) -> Chunk<'t> {
    if tools.is_empty() {
        return Chunk::default();
    }
    let style = JsonStyle { ensure_ascii: false, ..JsonStyle::default() };
    let schema = |tool: &Tool<'_>| dumps(&Value::Object(tool.function.clone()), &style);
    let schemas: Vec<String> = tools.iter().map(schema).collect();
    Chunk::of_format(TOOLS[0]).content(schemas.join("\n")).format(TOOLS[1])
}
