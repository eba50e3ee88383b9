use fulgurite_types::{Tool, ToolCall};

use crate::chat_message::{ChatContent, ChatMessage, ChatPart};
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::plain_text::PlainText;
use crate::formats::reasoning::{has_reasoning, is_reasoning, parts_with_reasoning};
use crate::python::python_json::{JsonStyle, dumps};
use crate::system_reminder::REMINDER;
use crate::tools::call_arguments::arguments_text;
use crate::{RenderError, ResponseFormat};

const END: &str = "<｜end▁of▁sentence｜>";
const USER: &str = "<｜User｜>";

/// DeepSeek V3.1: `<｜User｜>{content}` and `<｜Assistant｜>{content}<｜end▁of▁sentence｜>`. Tools are explained in the
/// system message, which has no role; after a tool's result the assistant goes on without a role.
#[derive(Debug)]
pub(crate) struct DeepSeek {
    /// Whether the model reasons before it answers.
    thinks: bool,
    /// Whether the reasoning of earlier answers is left out. That of turns that call tools always stays.
    strips_thinking: bool,
    /// Write what tinker-cookbook writes, faults included.
    cookbook_exact: bool,
}

/// How an assistant message is written between its role and its end.
struct AssistantText<'m> {
    /// `</think>` where the role is followed by it.
    opening: &'static str,
    content: Chunk<'m>,
    /// Whether the end of the turn is written.
    ends: bool,
}

impl DeepSeek {
    pub(crate) fn named(name: &str, strips_thinking: bool, cookbook_exact: bool) -> Option<Self> {
        let thinks = match name {
            "deepseekv3" | "deepseekv3_disable_thinking" => false,
            "deepseekv3_thinking" => true,
            _ => return None,
        };
        Some(Self { thinks, strips_thinking, cookbook_exact })
    }

    fn name(&self) -> &'static str {
        if self.thinks { "deepseekv3_thinking" } else { "deepseekv3" }
    }

    fn system<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        if index > 0 && self.cookbook_exact {
            let message = format!("the {} format takes a system message only as the first message", self.name());
            return Err(RenderError::Message { message_index: index, message });
        }
        let text = self.text(conversation, index)?;
        let (header, output) = match index {
            0 => (Chunk::default(), text.join(tools(conversation.tools()))),
            // The format has no place for it, but in what the user says.
            _ => (Chunk::of_format(USER), Chunk::default().content(REMINDER[0]).join(text).content(REMINDER[1])),
        };
        Ok(RenderedMessage { header, output: vec![output], ..RenderedMessage::default() })
    }

    /// The text of a message that is not the assistant's.
    fn text<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<Chunk<'m>, RenderError> {
        let plain = PlainText { format: self.name(), cookbook_exact: self.cookbook_exact };
        Ok(Chunk::default().content(plain.of(conversation.at(index), index)?))
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> RenderedMessage<'m> {
        let message = conversation.at(index);
        let text = match self.cookbook_exact {
            true => self.cookbook_assistant_text(conversation, index),
            false => self.assistant_text(conversation, index),
        };
        let header = if follows_tool(conversation, index) {
            Chunk::default()
        } else {
            Chunk::of_format("<｜Assistant｜>").format(text.opening)
        };
        let end = if text.ends { END } else { "" };
        let output = vec![text.content.join(calls(message)).format(end)];
        RenderedMessage { header, output, ..RenderedMessage::default() }
    }

    /// As sampled after the prompt where it was just sampled; else as history.
    fn assistant_text<'m>(&self, conversation: &Conversation<'m>, index: usize) -> AssistantText<'m> {
        let message = conversation.at(index);
        let parts = parts_with_reasoning(message);
        let follows_tool = follows_tool(conversation, index);
        let calls_tools = !message.tool_calls.is_empty();
        let is_whole = !self.strips_thinking || conversation.is_sampled(index);
        let has_thinking = parts.iter().any(is_reasoning);
        let shows_thinking = self.thinks && (is_whole || (calls_tools && has_thinking));
        if !shows_thinking {
            let text = parts.iter().filter_map(ChatPart::text).fold(Chunk::default(), Chunk::content);
            return AssistantText { opening: "</think>", content: text, ends: true };
        }
        // After a tool's result the prompt does not begin the reasoning, so that there need be none.
        let begins = follows_tool || matches!(parts.first(), Some(ChatPart::Thinking(_)));
        let frame = Chunk::of_format(if begins { "" } else { "<think></think>" });
        AssistantText { opening: "", content: parts.iter().fold(frame, with_part), ends: true }
    }

    fn cookbook_assistant_text<'m>(&self, conversation: &Conversation<'m>, index: usize) -> AssistantText<'m> {
        let message = conversation.at(index);
        let follows_tool = follows_tool(conversation, index);
        let is_last = conversation.is_last(index);
        if !self.thinks && !follows_tool {
            let text = match &message.content {
                ChatContent::Text(text) => without_thinking(text).into(),
                ChatContent::Parts(_) => message.visible_text(),
            };
            let ends = !text.is_empty();
            return AssistantText { opening: "</think>", content: Chunk::default().content(text), ends };
        }
        let keeps_thinking = !self.strips_thinking || !message.tool_calls.is_empty() || is_last;
        let (parts, has_content) = match &message.content {
            ChatContent::Text(text) => (vec![ChatPart::Text(text)], !text.is_empty()),
            ChatContent::Parts(parts) => (parts.clone(), !parts.is_empty()),
        };
        let frames = self.thinks && !follows_tool && is_last && has_content && !has_reasoning(&message.content);
        let frame = Chunk::of_format(if frames { "<think></think>" } else { "" });
        let shown = parts.iter().filter(|part| keeps_thinking || part.text().is_some());
        let opening = if self.thinks && self.strips_thinking && !is_last { "</think>" } else { "" };
        AssistantText { opening, content: shown.fold(frame, with_part), ends: has_content }
    }
}

impl Format for DeepSeek {
    fn beginning(&self) -> Chunk<'static> {
        Chunk::of_format("<｜begin▁of▁sentence｜>")
    }

    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let role = conversation.at(index).role;
        let (header, end) = match role {
            "system" => return self.system(conversation, index),
            "assistant" => return Ok(self.assistant(conversation, index)),
            "user" => (USER, ""),
            "tool" => ("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>"),
            _ => {
                let message = format!("the {} format has no role `{role}`", self.name());
                return Err(RenderError::Message { message_index: index, message });
            }
        };
        let output = self.text(conversation, index)?.format(end);
        Ok(RenderedMessage { header: Chunk::of_format(header), output: vec![output], ..RenderedMessage::default() })
    }

    fn generation_prompt(&self, conversation: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        if conversation.messages().last().is_some_and(|message| message.role == "tool") {
            return Ok(Vec::new());
        }
        let thinking = if self.thinks { "<think>" } else { "</think>" };
        Ok(vec![Chunk::of_format("<｜Assistant｜>").format(thinking)])
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        &[END]
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format(END)
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::DeepSeek
    }

    fn cookbook_split(&self) -> CookbookSplit {
        match self.thinks && self.strips_thinking {
            true => CookbookSplit::ByMessage,
            false => CookbookSplit::Whole,
        }
    }
}

fn follows_tool(conversation: &Conversation<'_>, index: usize) -> bool {
    conversation.before(index).is_some_and(|before| before.role == "tool")
}

fn with_part<'m>(chunk: Chunk<'m>, part: &ChatPart<'m>) -> Chunk<'m> {
    match part {
        ChatPart::Text(text) => chunk.content(*text),
        ChatPart::Thinking(thinking) => chunk.format("<think>").content(*thinking).format("</think>"),
    }
}

fn calls<'m>(message: &ChatMessage<'m>) -> Chunk<'m> {
    if message.tool_calls.is_empty() {
        return Chunk::default();
    }
    let with_call = |chunk: Chunk<'m>, call: &'m ToolCall| {
        let chunk = chunk.format("<｜tool▁call▁begin｜>").content(&*call.function.name);
        chunk.format("<｜tool▁sep｜>").content(arguments_text(&call.function)).format("<｜tool▁call▁end｜>")
    };
    message.tool_calls.iter().fold(Chunk::of_format("<｜tool▁calls▁begin｜>"), with_call).format("<｜tool▁calls▁end｜>")
}

/// What explains the tools at the end of the system message.
fn tools<'t>(tools: &[Tool<'t>]) -> Chunk<'t> {
    if tools.is_empty() {
        return Chunk::default();
    }
    let mut chunk = Chunk::of_format("\n\n## Tools\nYou have access to the following tools:\n");
    for tool in tools {
        chunk = chunk.format("\n### ").content(tool.name).format("\nDescription: ").content(tool.description());
        let parameters = dumps(&tool.parameters(), &JsonStyle::default());
        chunk = chunk.format("\n\nParameters: ").content(parameters);
    }
    chunk.format(concat!(
        "\n\nIMPORTANT: ALWAYS adhere to this exact format for tool use:\n",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>\n\nWhere:\n",
        "- `tool_call_name` must be an exact match to one of the available tools\n",
        "- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema\n",
        "- For multiple tool calls, chain them directly without separators or spaces",
    ))
}

/// The text without its `<think>...</think>` blocks.
fn without_thinking(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, block)) = rest.split_once("<think>")
        && let Some((_, after)) = block.split_once("</think>")
    {
        kept.push_str(before);
        rest = after;
    }
    kept + rest
}
