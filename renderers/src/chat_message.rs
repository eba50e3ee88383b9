use std::borrow::Cow;

use fulgurite_types::{Content, Message, PartNotText, ToolCall};
use serde_json::Value;

use crate::RenderError;

/// A message as the named formats read it: one shape for OpenAI's fields (`reasoning_content`, null content) and for
/// content parts (`text`, `thinking`). Borrows its text, so that reading a long conversation copies none of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChatMessage<'m> {
    /// The role.
    pub(crate) role: &'m str,
    /// The content.
    pub(crate) content: ChatContent<'m>,
    /// Calls that the assistant makes.
    pub(crate) tool_calls: &'m [ToolCall],
    /// Name of the speaker or of the tool.
    pub(crate) name: Option<&'m str>,
    /// The call that a tool's message answers.
    pub(crate) tool_call_id: Option<&'m str>,
}

/// Content of a [`ChatMessage`]. Some formats treat a string otherwise than a list that holds nothing but that string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ChatContent<'m> {
    /// A string; the empty one where there is no content.
    Text(&'m str),
    /// Parts in the order in which they were written.
    Parts(Vec<ChatPart<'m>>),
}

/// One part of a message's content.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ChatPart<'m> {
    /// What everybody may read.
    Text(&'m str),
    /// What the assistant thought before.
    Thinking(&'m str),
}

impl<'m> ChatMessage<'m> {
    /// Reads a message; `message_index` is named in errors.
    ///
    /// Reasoning may stand in a `thinking` part, or in a field of its own beside the content: `reasoning_content`, or
    /// `reasoning` as newer servers call it. Parts of other types are refused.
    pub(crate) fn read(message: &'m Message, message_index: usize) -> Result<Self, RenderError> {
        Ok(Self {
            role: &message.role,
            content: content(message, message_index)?,
            tool_calls: &message.tool_calls,
            name: message.name.as_deref(),
            tool_call_id: message.tool_call_id.as_deref(),
        })
    }

    /// Whether it is the assistant's.
    pub(crate) fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    /// The content as parts.
    pub(crate) fn parts(&self) -> Vec<ChatPart<'m>> {
        match &self.content {
            ChatContent::Text("") => Vec::new(),
            ChatContent::Text(text) => vec![ChatPart::Text(text)],
            ChatContent::Parts(parts) => parts.clone(),
        }
    }

    /// The text of the content, without reasoning.
    pub(crate) fn visible_text(&self) -> Cow<'m, str> {
        match &self.content {
            ChatContent::Text(text) => Cow::Borrowed(text),
            ChatContent::Parts(parts) => joined(parts.iter().filter_map(ChatPart::text)),
        }
    }

    /// The reasoning of the content.
    pub(crate) fn reasoning(&self) -> Cow<'m, str> {
        match &self.content {
            ChatContent::Text(_) => Cow::Borrowed(""),
            ChatContent::Parts(parts) => joined(parts.iter().filter_map(ChatPart::thinking)),
        }
    }
}

impl<'m> ChatPart<'m> {
    pub(crate) fn text(&self) -> Option<&'m str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Thinking(_) => None,
        }
    }

    pub(crate) fn thinking(&self) -> Option<&'m str> {
        match self {
            Self::Thinking(text) => Some(text),
            Self::Text(_) => None,
        }
    }
}

fn joined<'m>(texts: impl Iterator<Item = &'m str>) -> Cow<'m, str> {
    texts.fold(Cow::Borrowed(""), |joined, text| if joined.is_empty() { Cow::Borrowed(text) } else { joined + text })
}

fn content(message: &Message, message_index: usize) -> Result<ChatContent<'_>, RenderError> {
    let separate = ["reasoning_content", "reasoning"]
        .iter()
        .filter_map(|field| message.extra.get(*field)?.as_str())
        .find(|reasoning| !reasoning.is_empty());
    let content = match &message.content {
        None => ChatContent::Text(""),
        Some(Content::Text(text)) => ChatContent::Text(text),
        Some(Content::Parts(parts)) => ChatContent::Parts(
            parts
                .iter()
                .enumerate()
                .map(|(part_index, part)| {
                    let field = |name: &str| part.0.get(name).and_then(Value::as_str);
                    let known = match part.part_type() {
                        "text" => field("text").map(ChatPart::Text),
                        "thinking" => field("thinking").map(ChatPart::Thinking),
                        _ => None,
                    };
                    known.ok_or_else(|| PartNotText::new(message_index, part_index, part))
                })
                .collect::<Result<_, _>>()?,
        ),
    };
    Ok(match (separate, content) {
        (None, content) => content,
        (Some(reasoning), ChatContent::Text("")) => ChatContent::Parts(vec![ChatPart::Thinking(reasoning)]),
        (Some(reasoning), ChatContent::Text(text)) => {
            ChatContent::Parts(vec![ChatPart::Thinking(reasoning), ChatPart::Text(text)])
        }
        // The same reasoning may stand in both places; then the parts know where it belongs.
        (Some(_), ChatContent::Parts(parts)) if parts.iter().any(|part| part.thinking().is_some()) => {
            ChatContent::Parts(parts)
        }
        (Some(reasoning), ChatContent::Parts(mut parts)) => {
            parts.insert(0, ChatPart::Thinking(reasoning));
            ChatContent::Parts(parts)
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(value: Value) -> Message {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn reasoning_is_read_from_parts_and_from_beside_the_content() {
        let parts = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]);
        for wire in [
            json!({"role": "assistant", "content": parts}),
            json!({"role": "assistant", "content": "yes", "reasoning_content": "hm"}),
            json!({"role": "assistant", "content": "yes", "reasoning": "hm", "reasoning_content": null}),
            json!({"role": "assistant", "content": [{"type": "text", "text": "yes"}], "reasoning": "hm"}),
            json!({"role": "assistant", "content": parts, "reasoning_content": "hm"}),
        ] {
            let message = message(wire);
            let read = ChatMessage::read(&message, 0).unwrap();
            assert_eq!(read.parts(), [ChatPart::Thinking("hm"), ChatPart::Text("yes")]);
            assert_eq!((&*read.reasoning(), &*read.visible_text()), ("hm", "yes"));
        }
        let silent = message(json!({"role": "assistant", "content": null, "reasoning_content": "hm"}));
        assert_eq!(ChatMessage::read(&silent, 0).unwrap().parts(), [ChatPart::Thinking("hm")]);
    }

    #[test]
    fn a_part_of_another_type_is_named() {
        let message =
            message(json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}));
        let error = ChatMessage::read(&message, 2).unwrap_err();
        assert_eq!(error.to_string(), "message 2: content part 1 has type `image_url`, only text can be rendered");
    }
}
