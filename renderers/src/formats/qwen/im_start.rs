//! What the formats of Qwen and Nemotron share: `<|im_start|>{role}\n{content}<|im_end|>`, a line break between messages.

use std::borrow::Cow;

use crate::chat_message::{ChatMessage, ChatPart};
use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, RenderedMessage};

pub(crate) const END: &str = "<|im_end|>";

pub(crate) const STOP_TOKENS: &[&str] = &[END];

/// What stands before the content of the message at `index`.
pub(crate) fn header(role: &str, index: usize) -> Chunk<'_> {
    Chunk::of_format(if index == 0 { "<|im_start|>" } else { "\n<|im_start|>" }).content(role).format("\n")
}

/// The generation prompt; the model goes on after `prefill`.
pub(crate) fn generation_prompt(conversation: &Conversation<'_>, prefill: &'static str) -> Vec<Chunk<'static>> {
    vec![header("assistant", conversation.messages().len()).format(prefill)]
}

/// A message whose content is text alone.
pub(crate) fn plain_message<'m>(message: &ChatMessage<'m>, index: usize, content: Chunk<'m>) -> RenderedMessage<'m> {
    RenderedMessage {
        header: header(message.role, index),
        output: vec![content.format(END)],
        ..RenderedMessage::default()
    }
}

/// How the results of tools are written: as messages of the user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolResponses {
    /// Whether results that follow each other share one message.
    pub(crate) grouped: bool,
    /// What stands between two results of one message.
    pub(crate) separator: &'static str,
    /// What stands after a result.
    pub(crate) closing: &'static str,
}

impl ToolResponses {
    /// The result at `index`, whose content is `content`.
    pub(crate) fn message<'m>(
        &self,
        conversation: &Conversation<'m>,
        index: usize,
        content: Cow<'m, str>,
    ) -> RenderedMessage<'m> {
        let shares = |neighbour: Option<&ChatMessage<'_>>| {
            self.grouped && neighbour.is_some_and(|neighbour| neighbour.role == "tool")
        };
        let header = match shares(conversation.before(index)) {
            true => Chunk::of_format(self.separator),
            false => header("user", index),
        };
        let end = if shares(conversation.after(index)) { "" } else { END };
        let output = Chunk::of_format("<tool_response>\n").content(content).format(self.closing).format(end);
        RenderedMessage { header, output: vec![output], ..RenderedMessage::default() }
    }
}

/// A part of a turn as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TurnPart<'m> {
    Text(Cow<'m, str>),
    Thinking(Cow<'m, str>),
}

impl<'m> From<ChatPart<'m>> for TurnPart<'m> {
    fn from(part: ChatPart<'m>) -> Self {
        match part {
            ChatPart::Text(text) => Self::Text(text.into()),
            ChatPart::Thinking(reasoning) => Self::Thinking(reasoning.into()),
        }
    }
}

/// Whether some text of the parts is not empty.
pub(crate) fn has_text(parts: &[ChatPart<'_>]) -> bool {
    parts.iter().filter_map(ChatPart::text).any(|text| !text.is_empty())
}
