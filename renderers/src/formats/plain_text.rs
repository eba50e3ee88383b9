use std::borrow::Cow;

use crate::RenderError;
use crate::chat_message::{ChatContent, ChatMessage, ChatPart};

/// Content of messages in formats that know text alone: what else a message holds is refused, not lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainText {
    /// The format's name, for errors.
    pub(crate) format: &'static str,
    /// As tinker-cookbook: one part of text at most, and calls of tools are lost.
    pub(crate) cookbook_exact: bool,
}

impl PlainText {
    /// The text of a message.
    pub(crate) fn of<'m>(self, message: &ChatMessage<'m>, message_index: usize) -> Result<Cow<'m, str>, RenderError> {
        let refused = |what: &str| {
            let message = format!("the {} format cannot write {what}", self.format);
            Err(RenderError::Message { message_index, message })
        };
        match &message.content {
            _ if !message.tool_calls.is_empty() && !self.cookbook_exact => refused("calls of tools"),
            ChatContent::Parts(parts) if parts.iter().any(|part| part.thinking().is_some()) => refused("reasoning"),
            ChatContent::Parts(parts) if self.cookbook_exact && !matches!(parts[..], [ChatPart::Text(_)]) => {
                refused("a list of parts")
            }
            _ => Ok(message.visible_text()),
        }
    }
}
