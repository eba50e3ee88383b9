use std::borrow::Cow;

use fulgurite_types::{Message, Tool, ToolCall};
use serde_json::{Value, json};

use crate::chat_message::{ChatContent, ChatMessage, ChatPart};
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::kimi::kimi_tools::typescript;
use crate::formats::plain_text::PlainText;
use crate::formats::reasoning::parts_with_reasoning;
use crate::python::python_json::{JsonStyle, dumps};
use crate::tools::call_arguments::arguments_text;
use crate::{RenderError, ResponseFormat};

const END: &str = "<|im_end|>";
const TOOL_DECLARE: &str = "tool_declare";
const DEFAULT_SYSTEM: &str = "You are Kimi, an AI assistant created by Moonshot AI.";

/// Kimi K2 and its successors: `<|im_user|>user<|im_middle|>{content}<|im_end|>`, every turn of the assistant with a
/// block of reasoning.
#[derive(Debug)]
pub(crate) struct Kimi {
    version: Version,
    /// What the model is made to begin with.
    prefill: Prefill,
    /// Whether the reasoning of answers before the last one is left out.
    strips_thinking: bool,
    /// Write what tinker-cookbook writes, faults included.
    cookbook_exact: bool,
}

/// The models of the family that are written differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Tools are declared as JSON.
    K2,
    /// Tools are declared as TypeScript. K2.6 is written as K2.5 is.
    K25,
}

/// What the model is made to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefill {
    /// Nothing: the model opens `<think>` itself.
    Nothing,
    /// `<think>`.
    Thinking,
    /// `<think></think>`, so that it does not reason.
    NoThinking,
}

impl Kimi {
    pub(crate) fn named(name: &str, strips_thinking: bool, cookbook_exact: bool) -> Option<Self> {
        let (version, prefill) = match name {
            "kimi_k2" => (Version::K2, Prefill::Nothing),
            "kimi_k25" | "kimi_k26" => (Version::K25, Prefill::Thinking),
            "kimi_k25_disable_thinking" | "kimi_k26_disable_thinking" => (Version::K25, Prefill::NoThinking),
            "kimi_k26_preserve_thinking" if strips_thinking => (Version::K25, Prefill::Thinking),
            _ => return None,
        };
        let strips_thinking = strips_thinking && name != "kimi_k26_preserve_thinking";
        Some(Self { version, prefill, strips_thinking, cookbook_exact })
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Chunk<'m> {
        let message = conversation.at(index);
        let is_recent = Some(index) > conversation.last_answer();
        // The cookbook writes reasoning even where the prompt closes it.
        let may_think = self.cookbook_exact || self.prefill != Prefill::NoThinking;
        let shows_thinking = may_think && (is_recent || !self.strips_thinking);
        let parts = if self.cookbook_exact { message.parts() } else { parts_with_reasoning(message) };
        let thinking = parts.iter().filter_map(ChatPart::thinking).filter(|_| shows_thinking);
        let block = thinking.fold(Chunk::of_format("<think>"), Chunk::content).format("</think>");
        let spoken = parts.iter().filter_map(ChatPart::text).fold(block, Chunk::content);
        spoken.join(calls(message.tool_calls)).format(END)
    }

    /// The content of a message that is not the assistant's; each part is encoded apart.
    fn others<'m>(&self, message: &ChatMessage<'m>, index: usize) -> Result<Vec<Chunk<'m>>, RenderError> {
        let refuses_parts = self.cookbook_exact && self.version == Version::K2;
        let text = PlainText { format: "kimi", cookbook_exact: refuses_parts }.of(message, index)?;
        Ok(match &message.content {
            ChatContent::Parts(parts) if parts.len() != 1 => {
                let texts = parts.iter().filter_map(ChatPart::text).map(|text| Chunk::default().content(text));
                texts.chain([Chunk::of_format(END)]).collect()
            }
            _ => vec![Chunk::default().content(text).format(END)],
        })
    }
}

impl Format for Kimi {
    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let output = match message.is_assistant() {
            true => vec![self.assistant(conversation, index)],
            false => self.others(message, index)?,
        };
        Ok(RenderedMessage { header: header(message), output, ..RenderedMessage::default() })
    }

    fn generation_prompt(&self, _: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        let prefill = match self.prefill {
            Prefill::Nothing => "",
            Prefill::Thinking => "<think>",
            Prefill::NoThinking => "<think></think>",
        };
        Ok(vec![Chunk::of_format("<|im_assistant|>assistant<|im_middle|>"), Chunk::of_format(prefill)])
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        &[END]
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format(END)
    }

    fn declare_tools(&self, tools: &[Tool<'_>], system: &str) -> Result<Vec<Message>, RenderError> {
        let declaration = match self.version {
            Version::K2 => compact_json(tools),
            Version::K25 => typescript(tools, self.cookbook_exact)?,
        };
        let system = if system.is_empty() { DEFAULT_SYSTEM } else { system };
        Ok(vec![Message::text(TOOL_DECLARE, declaration), Message::text("system", system)])
    }

    /// A system message always stands at the beginning, after the declaration of tools.
    fn complete<'m>(&self, mut messages: Vec<Cow<'m, Message>>, _: bool) -> Vec<Cow<'m, Message>> {
        let role_at = |index: usize| messages.get(index).map(|message| message.role.as_str());
        let place = usize::from(role_at(0) == Some(TOOL_DECLARE));
        if role_at(place) != Some("system") {
            messages.insert(place, Cow::Owned(Message::text("system", DEFAULT_SYSTEM)));
        }
        messages
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::Kimi
    }

    fn cookbook_split(&self) -> CookbookSplit {
        CookbookSplit::ByUserTurn
    }

    fn disables_thinking(&self) -> bool {
        matches!(self.prefill, Prefill::NoThinking)
    }
}

fn header<'m>(message: &ChatMessage<'m>) -> Chunk<'m> {
    match message.role {
        "user" => Chunk::of_format("<|im_user|>user<|im_middle|>"),
        "assistant" => Chunk::of_format("<|im_assistant|>assistant<|im_middle|>"),
        "tool" => {
            let name = message.name.filter(|name| !name.is_empty()).unwrap_or(message.role);
            let header = Chunk::of_format("<|im_system|>").content(name).format("<|im_middle|>## Return of ");
            header.content(message.tool_call_id.unwrap_or_default()).format("\n")
        }
        role => Chunk::of_format("<|im_system|>").content(role).format("<|im_middle|>"),
    }
}

fn calls<'m>(tool_calls: &'m [ToolCall]) -> Chunk<'m> {
    if tool_calls.is_empty() {
        return Chunk::default();
    }
    let mut chunk = Chunk::of_format("<|tool_calls_section_begin|>");
    for (index, call) in tool_calls.iter().enumerate() {
        let id = match call.id.as_deref() {
            Some(id) if !id.is_empty() => Cow::Borrowed(id),
            _ => Cow::Owned(format!("functions.{}:{index}", call.function.name)),
        };
        chunk = chunk.format("<|tool_call_begin|>").content(id).format("<|tool_call_argument_begin|>");
        chunk = chunk.content(arguments_text(&call.function)).format("<|tool_call_end|>");
    }
    chunk.format("<|tool_calls_section_end|>")
}

/// Tools as OpenAI declares them, on one line, keys in order.
fn compact_json(tools: &[Tool<'_>]) -> String {
    let declared: Vec<Value> =
        tools.iter().map(|tool| json!({"type": "function", "function": tool.function})).collect();
    let style =
        JsonStyle { sort_keys: true, item_separator: ",".into(), key_separator: ":".into(), ..JsonStyle::default() };
    dumps(&declared.into(), &style)
}
