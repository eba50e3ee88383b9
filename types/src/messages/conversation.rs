use serde_json::Value;

use crate::Message;

/// The messages that a model is given, with the tools that it may call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversation {
    /// From the first on.
    pub messages: Vec<Message>,
    /// Tool declarations in the shape of OpenAI's chat API, kept as given: templates write them out whole.
    pub tools: Vec<Value>,
}
