//! Reasoning that stands in the text of a message, as clients send it back that know no field for it.

use crate::chat_message::{ChatContent, ChatMessage, ChatPart};

/// The parts of a message, reasoning in its text taken apart from what follows it.
pub(crate) fn parts_with_reasoning<'m>(message: &ChatMessage<'m>) -> Vec<ChatPart<'m>> {
    match single_text(&message.content).and_then(split_reasoning) {
        Some((reasoning, rest)) => vec![ChatPart::Thinking(reasoning), ChatPart::Text(rest)],
        None => message.parts(),
    }
}

/// The content where it is one text, given as such or as a list of one part.
pub(crate) fn single_text<'m>(content: &ChatContent<'m>) -> Option<&'m str> {
    match content {
        ChatContent::Text(text) => Some(text),
        ChatContent::Parts(parts) => match parts[..] {
            [ChatPart::Text(text)] => Some(text),
            _ => None,
        },
    }
}

/// Reasoning and what follows it, of a text that holds both: the reasoning stands before the first `</think>`, after
/// `<think>` where the text has it too.
pub(crate) fn split_reasoning(text: &str) -> Option<(&str, &str)> {
    let (before, after) = text.split_once("</think>")?;
    Some((before.rsplit_once("<think>").map_or(before, |(_, reasoning)| reasoning), after))
}

/// Whether the content holds reasoning in the eyes of tinker-cookbook: a part of it, or a text with `<think>`.
pub(crate) fn has_reasoning(content: &ChatContent<'_>) -> bool {
    match content {
        ChatContent::Text(text) => text.contains("<think>"),
        ChatContent::Parts(parts) => parts.iter().any(is_reasoning),
    }
}

/// Whether a part is reasoning.
pub(crate) fn is_reasoning(part: &ChatPart<'_>) -> bool {
    part.thinking().is_some()
}
