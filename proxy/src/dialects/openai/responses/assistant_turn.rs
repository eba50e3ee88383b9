use fulgurite_types::{Content, Message, ToolCall};
use serde_json::Map;

use crate::reply::assistant_message::is_void;

/// The assistant's message of a request's input, while its items come.
#[derive(Default)]
pub(super) struct AssistantTurn {
    /// The response of these items, if they name it.
    pub(super) response_id: Option<String>,
    reasoning: String,
    text: Option<String>,
    calls: Vec<ToolCall>,
    /// The last item was text.
    pub(super) ends_in_text: bool,
    /// Outputs of its broken calls, which may come before its last items.
    pub(super) outputs_of_broken: Vec<Message>,
}

impl AssistantTurn {
    /// Whether an item of a response may be more of this message. Behind the output of a broken call, only one that names
    /// the same response is.
    pub(super) fn may_go_on_with(&self, response_id: Option<&str>) -> bool {
        match (self.response_id.as_deref(), response_id) {
            (Some(before), Some(now)) => before == now,
            _ => self.outputs_of_broken.is_empty(),
        }
    }

    /// Whether it has a call of that id, which broke.
    pub(super) fn has_broken(&self, id: Option<&str>) -> bool {
        self.calls.iter().any(|call| call.id.as_deref() == id && is_void(call))
    }

    pub(super) fn reason(&mut self, text: &str) {
        self.reasoning.push_str(text);
        self.ends_in_text = false;
    }

    pub(super) fn add_text(&mut self, text: &str) {
        self.text.get_or_insert_default().push_str(text);
        self.ends_in_text = true;
    }

    pub(super) fn call(&mut self, call: ToolCall) {
        self.calls.push(call);
        self.ends_in_text = false;
    }

    /// The message as it was sampled: one of nothing but calls or reasoning has no content.
    pub(super) fn into_message(self) -> Message {
        let mut extra = Map::new();
        let is_silent = self.reasoning.is_empty() && self.calls.is_empty();
        if !self.reasoning.is_empty() {
            extra.insert("reasoning_content".to_owned(), self.reasoning.into());
        }
        let content = self.text.filter(|text| is_silent || !text.is_empty()).map(Content::Text);
        Message { role: "assistant".to_owned(), content, tool_calls: self.calls, extra, ..Message::default() }
    }
}
