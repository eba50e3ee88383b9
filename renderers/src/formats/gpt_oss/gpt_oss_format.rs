use std::borrow::Cow;

use fulgurite_types::{Message, Tool};

use crate::chat_message::ChatMessage;
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::format_options::FormatOptions;
use crate::formats::gpt_oss::harmony_tools::namespace;
use crate::formats::plain_text::PlainText;
use crate::python::python_time::today;
use crate::tools::call_arguments::arguments_text;
use crate::{RenderError, ResponseFormat};

/// Roles of messages that the format adds: Harmony's own system message, and the developer's with the tools.
const SYSTEM: &str = "harmony_system";
const DEVELOPER: &str = "harmony_developer";
const TOOL_ROUTING: &str = "Calls to these tools must go to the commentary channel: 'functions'.";
const NEXT_MESSAGE: &str = "<|start|>assistant";

/// Harmony, the format of gpt-oss: `<|start|>{role}<|channel|>{channel}<|message|>{content}<|end|>`. What a caller calls
/// the system is the developer here; the system message is the model's own.
#[derive(Debug)]
pub(crate) struct GptOss {
    /// The reasoning effort in the system message. None: there is no system message.
    reasoning_effort: Option<&'static str>,
    /// Today's date as `YYYY-MM-DD`. None: that of the day, UTC.
    current_date: Option<String>,
    /// Write what tinker-cookbook writes, faults included.
    cookbook_exact: bool,
}

impl GptOss {
    pub(crate) fn named(name: &str, options: &FormatOptions) -> Option<Self> {
        let reasoning_effort = match name {
            "gpt_oss_no_sysprompt" => None,
            "gpt_oss_low_reasoning" => Some("low"),
            "gpt_oss_medium_reasoning" => Some("medium"),
            "gpt_oss_high_reasoning" => Some("high"),
            _ => return None,
        };
        let FormatOptions { cookbook_exact, current_date } = options.clone();
        Some(Self { reasoning_effort, current_date, cookbook_exact })
    }

    /// The model's own system message, as OpenAI's template has it.
    fn system_message(&self, reasoning_effort: &str) -> String {
        let current_date = self.current_date.clone().unwrap_or_else(today);
        format!(
            "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\n\
             Current date: {current_date}\n\nReasoning: {reasoning_effort}\n\n\
             # Valid channels: analysis, commentary, final. Channel must be included for every message."
        )
    }

    fn plain_text(&self) -> PlainText {
        PlainText { format: "gpt_oss", cookbook_exact: self.cookbook_exact }
    }

    /// Whether tool calls are explained in a message of their own, for want of a system message.
    fn routes_tools_apart(&self) -> bool {
        self.cookbook_exact || self.reasoning_effort.is_none()
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Chunk<'m> {
        let message = conversation.at(index);
        let (is_sampled, shows_thinking) = match self.cookbook_exact {
            true => (conversation.is_last(index), true),
            // The model's template leaves reasoning out once an answer has followed it.
            false => (conversation.is_sampled(index), Some(index) > conversation.last_answer()),
        };
        let mut chunk = Chunk::default();
        let thinking = message.reasoning();
        if shows_thinking && !thinking.is_empty() {
            chunk = chunk.format("<|channel|>analysis<|message|>").content(thinking).format("<|end|>");
            chunk = chunk.format(NEXT_MESSAGE);
        }
        let text = message.visible_text();
        if !message.tool_calls.is_empty() {
            return chunk.join(calls(message, text));
        }
        let end = if is_sampled { "<|return|>" } else { "<|end|>" };
        chunk.format("<|channel|>final<|message|>").content(text).format(end)
    }

    /// The result of a tool, whose role is the tool.
    fn tool_result<'m>(
        &self,
        conversation: &Conversation<'m>,
        index: usize,
    ) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let given = message.name.filter(|name| !name.is_empty());
        let name = match (given, self.cookbook_exact) {
            (Some(name), _) => name,
            (None, true) => "unknown",
            (None, false) => called_tool(conversation, index).ok_or_else(|| RenderError::Message {
                message_index: index,
                message: "the result of a tool needs the tool's `name`, or the `tool_call_id` of a call before it"
                    .into(),
            })?,
        };
        let prefix = if name.starts_with("functions.") { "" } else { "functions." };
        let text = self.plain_text().of(message, index)?;
        Ok(RenderedMessage {
            header: Chunk::of_format("<|start|>").format(prefix).content(name).format(" to=assistant"),
            output: vec![Chunk::of_format("<|channel|>commentary<|message|>").content(text).format("<|end|>")],
            ..RenderedMessage::default()
        })
    }
}

impl Format for GptOss {
    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let start = Chunk::of_format("<|start|>");
        let text = || self.plain_text().of(message, index);
        let (header, output) = match message.role {
            "tool" => return self.tool_result(conversation, index),
            "assistant" => (Chunk::of_format(NEXT_MESSAGE), self.assistant(conversation, index)),
            "system" => {
                let output = Chunk::of_format("<|message|># Instructions\n\n").content(text()?).format("\n\n<|end|>");
                (start.format("developer"), output)
            }
            role => {
                let header = match role {
                    SYSTEM => start.format("system"),
                    DEVELOPER => start.format("developer"),
                    role => start.content(role),
                };
                (header, Chunk::of_format("<|message|>").content(text()?).format("<|end|>"))
            }
        };
        Ok(RenderedMessage { header, output: vec![output], ..RenderedMessage::default() })
    }

    fn generation_prompt(&self, _: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        Ok(vec![Chunk::of_format(NEXT_MESSAGE)])
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        &["<|return|>", "<|call|>"]
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format("<|end|>")
    }

    fn declare_tools(&self, tools: &[Tool<'_>], system: &str) -> Result<Vec<Message>, RenderError> {
        let instructions = match system {
            "" => String::new(),
            system => format!("# Instructions\n\n{system}\n\n"),
        };
        let developer = Message::text(DEVELOPER, instructions + &namespace(tools, self.cookbook_exact));
        let routing = self.routes_tools_apart().then(|| Message::text(SYSTEM, TOOL_ROUTING));
        Ok(routing.into_iter().chain([developer]).collect())
    }

    fn complete<'m>(&self, mut messages: Vec<Cow<'m, Message>>, declares_tools: bool) -> Vec<Cow<'m, Message>> {
        // The model's template has no developer message where there is nothing to say.
        let is_empty =
            |message: &Message| message.role == "system" && message.plain_text(0).is_ok_and(|text| text.is_empty());
        if !self.cookbook_exact && messages.first().is_some_and(|first| is_empty(first)) {
            messages.remove(0);
        }
        if let Some(reasoning_effort) = self.reasoning_effort {
            let mut system = self.system_message(reasoning_effort);
            if declares_tools && !self.routes_tools_apart() {
                system = format!("{system}\n{TOOL_ROUTING}");
            }
            messages.insert(0, Cow::Owned(Message::text(SYSTEM, system)));
        }
        messages
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::Harmony
    }

    fn cookbook_split(&self) -> CookbookSplit {
        CookbookSplit::ByMessage
    }
}

/// Calls of tools, after the text before them; each is a message of its own.
fn calls<'m>(message: &ChatMessage<'m>, preamble: Cow<'m, str>) -> Chunk<'m> {
    let mut chunk = Chunk::default();
    if !preamble.is_empty() {
        chunk = chunk.format("<|channel|>commentary<|message|>").content(preamble).format("<|end|>");
        chunk = chunk.format(NEXT_MESSAGE);
    }
    for (index, call) in message.tool_calls.iter().enumerate() {
        chunk = chunk.format(if index == 0 { "" } else { NEXT_MESSAGE }).format(" to=functions.");
        chunk = chunk.content(&*call.function.name).format("<|channel|>commentary <|constrain|>json<|message|>");
        chunk = chunk.content(arguments_text(&call.function)).format("<|call|>");
    }
    chunk
}

/// The tool that the call answered by the message at `index` named.
fn called_tool<'m>(conversation: &Conversation<'m>, index: usize) -> Option<&'m str> {
    let id = conversation.at(index).tool_call_id?;
    let calls = conversation.messages()[..index].iter().rev().flat_map(|message| message.tool_calls);
    calls.into_iter().find(|call| call.id.as_deref() == Some(id)).map(|call| call.function.name.as_str())
}
