use fulgurite_types::NewGeneration;

use crate::call_records::conversations::RecordedConversation;

/// A model call that is to be recorded.
#[derive(Clone, Debug)]
pub struct NewCall {
    /// The answer, with the attributes of its span.
    pub generation: NewGeneration,
    /// Its messages. Where it is `None` they are looked for among the generation's attributes, as in spans of tracers;
    /// otherwise those have no messages, tools or answer.
    pub conversation: Option<RecordedConversation>,
    /// The digest of its messages and its answer, by which a later call that names no rollout finds it; `None` of a call
    /// that is not found so.
    pub conversation_digest: Option<ConversationHash>,
}

/// SHA-256 of a conversation.
pub type ConversationHash = [u8; 32];

impl From<NewGeneration> for NewCall {
    fn from(generation: NewGeneration) -> Self {
        Self { generation, conversation: None, conversation_digest: None }
    }
}
