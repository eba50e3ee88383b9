use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// One message of a conversation, in the shape of OpenAI's chat API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`, `tool` or whatever the template knows.
    pub role: String,
    /// What is said; `None` (null on the wire) where the message is nothing but tool calls.
    #[serde(default)]
    pub content: Option<Content>,
    /// Name of the speaker or of the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Calls that the assistant makes.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "null_as_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Every other field, such as `reasoning_content`; templates see them.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of parts")]
pub enum Content {
    /// Plain text.
    Text(String),
    /// A list of parts.
    Parts(Vec<ContentPart>),
}

/// One part of a message's content, kept as it came; only text parts have a meaning here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentPart(pub Value);

/// A call of a tool by the assistant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Names the call, so that a tool's message can answer it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// `function`.
    #[serde(rename = "type", default = "function_type")]
    pub call_type: String,
    /// What is called.
    pub function: FunctionCall,
    /// Every other field.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The function that a tool call names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Name of the function.
    pub name: String,
    /// Its arguments: on OpenAI's wire a string of JSON; many chat templates want the object itself. Kept as given.
    #[serde(default)]
    pub arguments: Value,
    /// Every other field.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A content part that is not text, where only text has tokens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message {message_index}: content part {part_index} has type `{part_type}`, only text can be rendered")]
pub struct PartNotText {
    /// Which message, from 0.
    pub message_index: usize,
    /// Which part of it, from 0.
    pub part_index: usize,
    /// The part's `type`.
    pub part_type: String,
}

impl PartNotText {
    /// The error of that part.
    pub fn new(message_index: usize, part_index: usize, part: &ContentPart) -> Self {
        Self { message_index, part_index, part_type: part.part_type().to_owned() }
    }
}

impl Message {
    /// A message of plain text.
    pub fn text(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Some(Content::Text(content.into())), ..Self::default() }
    }

    /// Whether the assistant speaks.
    pub fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    /// The content as one string: text parts joined without a separator, missing content as the empty string.
    /// `message_index` is named in the error for a part that is not text.
    pub fn plain_text(&self, message_index: usize) -> Result<String, PartNotText> {
        match &self.content {
            None => Ok(String::new()),
            Some(Content::Text(text)) => Ok(text.clone()),
            Some(Content::Parts(parts)) => parts
                .iter()
                .enumerate()
                .map(|(part_index, part)| part.text().ok_or_else(|| PartNotText::new(message_index, part_index, part)))
                .collect(),
        }
    }
}

impl ContentPart {
    /// A text part.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(json!({"type": "text", "text": text.into()}))
    }

    /// The text of a text part; `None` for any other.
    pub fn text(&self) -> Option<&str> {
        (self.part_type() == "text").then(|| self.0.get("text")?.as_str()).flatten()
    }

    /// The part's `type`; empty where there is none.
    pub fn part_type(&self) -> &str {
        self.0.get("type").and_then(Value::as_str).unwrap_or_default()
    }
}

fn function_type() -> String {
    "function".to_owned()
}

fn null_as_empty<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolCall>, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_the_way_through_with_fields_that_nobody_knows() {
        let wire = json!({
            "role": "assistant",
            "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, {"type": "image_url"}],
            "tool_calls": [{"id": "c1", "type": "function",
                            "function": {"name": "f", "arguments": "{\"x\":1}", "strict": true}, "index": 0}],
            "reasoning_content": "because",
        });
        let message: Message = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(&message).unwrap(), wire);
    }

    #[test]
    fn null_tool_calls_and_null_content_are_none() {
        let message: Message =
            serde_json::from_value(json!({"role": "assistant", "content": null, "tool_calls": null})).unwrap();
        assert_eq!(message, Message { role: "assistant".into(), ..Message::default() });
        assert_eq!(message.plain_text(0).unwrap(), "");
    }

    #[test]
    fn a_part_that_is_not_text_is_named() {
        let parts = vec![ContentPart::from_text("a"), ContentPart(json!({"type": "image_url"}))];
        let message = Message { role: "user".into(), content: Some(Content::Parts(parts)), ..Message::default() };
        let error = message.plain_text(3).unwrap_err();
        assert_eq!(error.to_string(), "message 3: content part 1 has type `image_url`, only text can be rendered");
    }
}
