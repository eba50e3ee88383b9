//! Messages of which small conversations are made that find out about templates.

use serde_json::{Map, Value, json};

use fulgurite_types::{FunctionCall, Message, ToolCall};

pub(crate) fn a_user() -> Message {
    Message::text("user", "a")
}

pub(crate) fn an_answer() -> Message {
    Message::text("assistant", "b")
}

/// The reasoning of turns that have some.
pub(crate) const REASONING: &str = "because of that";

/// The message with reasoning before it.
pub(crate) fn reasoning(mut message: Message) -> Message {
    message.extra.insert("reasoning_content".to_owned(), REASONING.into());
    message
}

/// A turn that calls the tool `probe`, once for each id. Some templates insist on ids of nine letters and digits.
pub(crate) fn calling(ids: &[&str]) -> Message {
    let call = |id: &&str| ToolCall {
        id: Some((*id).to_owned()),
        call_type: "function".to_owned(),
        function: FunctionCall { name: "probe".to_owned(), arguments: json!({"city": "Paris"}), extra: Map::new() },
        extra: Map::new(),
    };
    Message { tool_calls: ids.iter().map(call).collect(), ..Message::text("assistant", "") }
}

/// What the tool `probe` answers.
pub(crate) fn result_of(id: &str) -> Message {
    Message { tool_call_id: Some(id.to_owned()), name: Some("probe".to_owned()), ..Message::text("tool", "c") }
}

/// The declaration of a tool.
pub(crate) fn declared(name: &str) -> Value {
    let parameters = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    json!({"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}})
}
