use std::borrow::Cow;

use fulgurite_types::{Message, Tool};

use crate::chat_message::{ChatContent, ChatMessage};
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::python_strip::{trimmed, trimmed_cow, trimmed_end_cow, trimmed_start_cow};
use crate::formats::qwen::im_start::{self, END, ToolResponses, TurnPart, header};
use crate::formats::qwen::qwen_tools::{ValueStyle, xml_calls, xml_declarations, xml_tools};
use crate::formats::reasoning::{has_reasoning, single_text, split_reasoning};
use crate::python::python_strings::is_space;
use crate::{RenderError, ResponseFormat};

/// Nemotron 3: Nano, Super, Ultra, and 3.5 Lightning. The prompt opens `<think>`, a turn without reasoning is written
/// with `<think></think>`, calls are XML in `<tool_call>`, and there is always a system message.
#[derive(Debug)]
pub(crate) struct Nemotron3 {
    /// How reasoning and text are set apart.
    layout: Layout,
    /// The prompt closes the reasoning too.
    disables_thinking: bool,
    /// What the last message of the user ends with, to say how much to reason.
    effort: &'static str,
    /// Reasoning before the last message of the user is left out.
    strip_thinking: bool,
    /// Write what tinker-cookbook writes, not what the model's chat template does.
    cookbook_exact: bool,
}

const EMPTY_FRAME: &str = "<think></think>";

const LOW_EFFORT: &str = "\n\n{reasoning effort: low}";

const MEDIUM_EFFORT: &str = "\n\n{reasoning effort: efficient}";

/// How reasoning and text are set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Nano and Super: `</think>` on a line of its own.
    Lines,
    /// Ultra and 3.5 Lightning: nothing around `</think>`.
    Inline,
}

impl Nemotron3 {
    /// A name that says that reasoning is preserved cannot say so twice.
    pub(crate) fn named(name: &str, strip_thinking: bool, cookbook_exact: bool) -> Option<Self> {
        let (layout, mode) = match name.strip_prefix("nemotron3_ultra") {
            Some(mode) => (Layout::Inline, mode),
            None => (Layout::Lines, name.strip_prefix("nemotron3")?),
        };
        let (strip_thinking, effort) = match (layout, mode) {
            (_, "" | "_disable_thinking") => (strip_thinking, ""),
            (_, "_preserve_thinking") if strip_thinking => (false, ""),
            (Layout::Lines, "_low_thinking") => (strip_thinking, LOW_EFFORT),
            (Layout::Inline, "_medium_thinking") => (strip_thinking, MEDIUM_EFFORT),
            _ => return None,
        };
        let disables_thinking = mode == "_disable_thinking";
        Some(Self { layout, disables_thinking, effort, strip_thinking, cookbook_exact })
    }

    fn value_style(&self) -> ValueStyle {
        ValueStyle { cookbook_exact: self.cookbook_exact, python_scalars: true }
    }

    /// What the model is made to begin with.
    fn prefill(&self) -> &'static str {
        if self.disables_thinking { EMPTY_FRAME } else { "<think>\n" }
    }

    /// What ends the reasoning.
    fn closing(&self) -> &'static str {
        match self.layout {
            Layout::Lines => "\n</think>\n",
            Layout::Inline => "</think>",
        }
    }

    /// The text of a message of anybody but the assistant. The cookbook trims it unless it is a list of parts.
    fn text<'m>(&self, message: &ChatMessage<'m>) -> Cow<'m, str> {
        match message.content {
            ChatContent::Text(_) if self.cookbook_exact => trimmed_cow(message.visible_text()),
            _ => message.visible_text(),
        }
    }

    /// The parts of a turn. The chat template reads reasoning in a text, and writes it before all text.
    fn parts<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Vec<TurnPart<'m>> {
        let message = conversation.at(index);
        if self.cookbook_exact {
            return match &message.content {
                ChatContent::Text(text) => vec![TurnPart::Text(trimmed(text).into())],
                ChatContent::Parts(parts) => parts.iter().map(|part| TurnPart::from(*part)).collect(),
            };
        }
        let (reasoning, text) = match single_text(&message.content) {
            Some(text) => match split_reasoning(text) {
                Some(("", rest)) => (None, rest.into()),
                Some((reasoning, rest)) => self.without_layout(reasoning, rest),
                None => (None, text.into()),
            },
            None => {
                let reasoning = message.reasoning();
                ((!trimmed(&reasoning).is_empty()).then_some(reasoning), message.visible_text())
            }
        };
        // A turn that was sampled goes on from the `<think>` of the prompt, whether it reasons or not.
        let opened = conversation.is_sampled(index) && !self.disables_thinking;
        let reasoning = reasoning.or(opened.then_some(Cow::Borrowed("")));
        let text = match (message.tool_calls.is_empty(), self.is_history(conversation, index), self.layout) {
            (false, true, Layout::Lines) => trimmed_cow(text),
            (false, true, Layout::Inline) => text,
            _ => trimmed_end_cow(text),
        };
        reasoning.map(TurnPart::Thinking).into_iter().chain([TurnPart::Text(text)]).collect()
    }

    /// Reasoning and text that were found in one text, without the line breaks that set them apart.
    fn without_layout<'m>(&self, reasoning: &'m str, rest: &'m str) -> (Option<Cow<'m, str>>, Cow<'m, str>) {
        let reasoning = reasoning.strip_prefix('\n').unwrap_or(reasoning);
        let (reasoning, rest) = match self.layout {
            Layout::Lines => {
                (reasoning.strip_suffix('\n').unwrap_or(reasoning), rest.strip_prefix('\n').unwrap_or(rest))
            }
            Layout::Inline => (reasoning, rest),
        };
        (Some(reasoning.into()), rest.into())
    }

    /// Whether the turn stands before the last message of the user and loses its reasoning.
    fn is_history(&self, conversation: &Conversation<'_>, index: usize) -> bool {
        self.strip_thinking && conversation.last_user().is_some_and(|last_user| index < last_user)
    }

    fn assistant<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let mut parts = self.parts(conversation, index);
        let is_history = self.is_history(conversation, index);
        let has_text = parts.iter().any(|part| matches!(part, TurnPart::Text(text) if !text.is_empty()));
        let has_reasoning_part = parts.iter().any(|part| matches!(part, TurnPart::Thinking(_)));
        let reasons = match self.cookbook_exact {
            true => has_reasoning(&message.content),
            false => has_reasoning_part,
        };
        let lines = self.layout == Layout::Lines && has_reasoning_part;
        let frame = match (reasons, is_history) {
            (true, false) => "",
            (true, true) if lines && has_text && message.tool_calls.is_empty() => "<think></think>\n",
            _ => EMPTY_FRAME,
        };
        if is_history {
            parts.retain(|part| matches!(part, TurnPart::Text(_)));
        }
        let mut content = Chunk::default();
        for part in parts {
            content = match part {
                TurnPart::Thinking(reasoning) => content.format("<think>\n").content(reasoning).format(self.closing()),
                TurnPart::Text(text) => content.content(text),
            };
        }
        // Reasoning ends its line, for the cookbook even where it is left out.
        let ends_line = lines && !has_text && (self.cookbook_exact || !is_history);
        let calls = xml_calls(message, index, self.value_style())?;
        let separator = if calls.is_empty() || ends_line { "" } else { "\n" };
        let content = calls.into_iter().fold(content.format(separator), |all, call| all.join(call).format("\n"));
        Ok(RenderedMessage {
            header: header("assistant", index).format(frame),
            output: vec![content.format(END)],
            ..RenderedMessage::default()
        })
    }

    fn system<'m>(&self, message: &ChatMessage<'m>, tools: &[Tool<'m>]) -> Chunk<'m> {
        let text = message.visible_text();
        let text = if self.cookbook_exact { trimmed_start_cow(text) } else { text };
        let separator = if text.is_empty() { "" } else { "\n\n" };
        Chunk::default().content(text).format(separator).join(xml_tools(xml_declarations(tools, self.value_style())))
    }

    /// The last message of the user, which says how much to reason.
    fn user_with_effort<'m>(&self, message: &ChatMessage<'m>, index: usize) -> Result<Chunk<'m>, RenderError> {
        if !self.cookbook_exact {
            return Ok(Chunk::default().content(message.visible_text()).format(self.effort));
        }
        let ChatContent::Text(text) = message.content else {
            if self.layout == Layout::Inline {
                return Ok(Chunk::default().content(message.visible_text()).format(self.effort));
            }
            let message = "says how much to reason, which a list of parts cannot".to_owned();
            return Err(RenderError::Message { message_index: index, message });
        };
        match text.trim_start_matches(is_space) {
            "" => Ok(Chunk::of_format(trimmed(self.effort))),
            text => Ok(Chunk::default().content(text).format(self.effort)),
        }
    }
}

impl Format for Nemotron3 {
    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let content = match message.role {
            "assistant" => return self.assistant(conversation, index),
            "tool" => {
                let responses = ToolResponses { grouped: true, separator: "", closing: "\n</tool_response>\n" };
                return Ok(responses.message(conversation, index, self.text(message)));
            }
            "user" if !self.effort.is_empty() && conversation.last_user() == Some(index) => {
                self.user_with_effort(message, index)?
            }
            "system" if index == 0 && !conversation.tools().is_empty() => self.system(message, conversation.tools()),
            _ => Chunk::default().content(self.text(message)),
        };
        Ok(im_start::plain_message(message, index, content))
    }

    fn generation_prompt(&self, conversation: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        Ok(im_start::generation_prompt(conversation, self.prefill()))
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        im_start::STOP_TOKENS
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format(END)
    }

    /// There is always a system message.
    fn complete<'m>(&self, mut messages: Vec<Cow<'m, Message>>, _: bool) -> Vec<Cow<'m, Message>> {
        if messages.first().is_none_or(|message| message.role != "system") {
            messages.insert(0, Cow::Owned(Message::text("system", "")));
        }
        messages
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::QwenXml
    }

    fn cookbook_split(&self) -> CookbookSplit {
        if self.strip_thinking { CookbookSplit::ByMessage } else { CookbookSplit::Whole }
    }

    fn disables_thinking(&self) -> bool {
        self.disables_thinking
    }
}
