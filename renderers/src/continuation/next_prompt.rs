use fulgurite_types::DepartureReason;
use serde::{Deserialize, Serialize};

/// How turns that the model sampled appear in later prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContinuationPolicy {
    /// As they were sampled: what was sampled is never rendered again, reasoning stays. The default.
    #[default]
    Exact,
    /// As the model's format renders them, which often drops earlier reasoning. A prompt continues a recorded turn only
    /// where the rendering begins with the recorded tokens.
    TemplateFaithful,
}

/// The next prompt of a conversation, against the turns that are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextPrompt {
    /// It continues a recorded turn token by token.
    Continued(Continued),
    /// It was rendered from its beginning.
    Fresh(Fresh),
}

/// A prompt that is a recorded prompt, what was sampled after it, and new tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    /// The turn that is continued, by the number that it was recorded under.
    pub turn: usize,
    /// Index of the first message after that turn's reply.
    pub new_from: usize,
    /// Length of that turn's prompt and sampled tokens together.
    pub tokens_kept: usize,
    /// The tokens after them: the end of the turn where it was cut off, the new messages, the generation prompt.
    pub appended: Vec<u32>,
    /// Why the prompt does not continue the latest turn; `None` where it does.
    pub departure: Option<Departure>,
}

/// A prompt that continues nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Why.
    pub departure: Departure,
    /// All its tokens.
    pub tokens: Vec<u32>,
}

/// Where a conversation leaves what is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Departure {
    /// Why it does.
    pub reason: DepartureReason,
    /// The recorded turn that is closest to it.
    pub turn: Option<usize>,
    /// The first message that differs from what is recorded; `None` where all messages are recorded.
    pub message_index: Option<usize>,
    /// The first token that differs from that turn's prompt and sampled tokens, where both are known.
    pub token_index: Option<usize>,
    /// The renderer's error, where it could not continue.
    pub detail: Option<String>,
}
