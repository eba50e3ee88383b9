use std::sync::Arc;

use fulgurite_types::Message;

use crate::error::ProxyError;
use crate::reply::answer_token::AnswerToken;
use crate::reply::assistant_message::Delta;
use crate::reply::finish_reason::FinishReason;

/// An event of a running call: tokens, then exactly one `Finished` or `Failed`.
#[derive(Clone)]
pub(crate) enum CallEvent {
    /// Sampled tokens that came together, at least one, and what may be shown since the last.
    Tokens(Arc<[AnswerToken]>),
    /// The end, durably recorded.
    Finished(Arc<Finished>),
    /// The end, with nothing to answer. What had been sampled is recorded, and will not be trained.
    Failed(Arc<ProxyError>),
}

/// The end of an answer.
pub(crate) struct Finished {
    /// What was held back until the end was known.
    pub(crate) held_back: Vec<Delta>,
    /// The whole message.
    pub(crate) message: Message,
    pub(crate) reason: FinishReason,
    /// The client's stop string that ended it.
    pub(crate) stop_string: Option<String>,
    pub(crate) prompt_tokens: usize,
    pub(crate) sampled_tokens: usize,
    /// Of the prompt, as the model's host reports; `None` where it does not, or where nothing was sampled.
    pub(crate) cached_tokens: Option<usize>,
}
