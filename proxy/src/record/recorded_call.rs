use fulgurite_types::{Generation, Message};
use serde_json::{Map, Value};

/// A recorded call: its tokens and its messages.
#[derive(Debug)]
pub(crate) struct RecordedCall {
    pub(crate) generation: Generation,
    /// The prompt's; none if it was given as text or tokens.
    pub(crate) messages: Vec<Message>,
    /// In OpenAI's shape for chats.
    pub(crate) tools: Vec<Value>,
    /// The answer.
    pub(crate) reply: Option<Message>,
    /// Tokens of the prompt and of the answer, as counted by the host that sampled it.
    pub(crate) usage: (u64, u64),
    /// Of the prompt, as far as its host reported it.
    pub(crate) cached_tokens: u64,
    /// Fields of the request that have no attributes of their own.
    pub(crate) request_extra: Map<String, Value>,
    /// Which of its request's answers it is, counted from 0.
    pub(crate) choice: u64,
    /// The `Idempotency-Key` that its request carried.
    pub(crate) idempotency_key: Option<String>,
    /// Attributes that describe how its prompt continues earlier calls.
    pub(crate) place: Map<String, Value>,
}

/// The id of a request's answer: of the first it is the reply's.
pub(crate) fn generation_id(reply_id: &str, choice: usize) -> String {
    if choice == 0 { reply_id.to_owned() } else { format!("{reply_id}-{choice}") }
}

/// Whether a generation is one of the answers in this reply.
pub(crate) fn is_answer_of(reply_id: &str, generation_id: &str) -> bool {
    let choice = generation_id.strip_prefix(reply_id);
    choice.is_some_and(|choice| choice.is_empty() || choice.starts_with('-'))
}

/// The id of the reply that a recorded call is an answer of.
pub(crate) fn reply_id(call: &RecordedCall) -> &str {
    let id = &call.generation.generation_id;
    if call.choice == 0 { id } else { id.strip_suffix(&format!("-{}", call.choice)).unwrap_or(id) }
}
