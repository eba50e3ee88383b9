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
    /// What the renderer said, where it could not continue.
    pub detail: Option<String>,
}

/// Why a prompt does not continue the latest recorded turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DepartureReason {
    /// A conversation begins: no turn is recorded, or the assistant has not spoken in it yet.
    FirstTurn,
    /// The same request again, of a turn that is recorded.
    RequestRepeated,
    /// It continues an earlier turn: conversations take turns, or the client went back.
    OtherBranch,
    /// Messages that had been there are no longer there.
    Truncated,
    /// A message of the system or of the developer changed.
    SystemChanged,
    /// Other tools are declared, or in another order.
    ToolsChanged,
    /// A message changed that was in the history.
    HistoryRewritten,
    /// The renderer cannot write what follows this turn without what comes before it.
    RendererCannotContinue,
    /// Under [`TemplateFaithful`](ContinuationPolicy::TemplateFaithful): earlier reasoning is left out.
    ReasoningDropped,
    /// Under [`TemplateFaithful`](ContinuationPolicy::TemplateFaithful): the format spells calls in another way than
    /// they were sampled.
    CallsRespelled,
    /// Under [`TemplateFaithful`](ContinuationPolicy::TemplateFaithful): the same text is cut into other tokens than
    /// were sampled.
    Retokenised,
    /// Under [`TemplateFaithful`](ContinuationPolicy::TemplateFaithful): the format writes something else of the turn
    /// in another way, such as its end.
    RenderedOtherwise,
}

impl DepartureReason {
    /// The reason's name, as reports and stores give it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstTurn => "first_turn",
            Self::RequestRepeated => "request_repeated",
            Self::OtherBranch => "other_branch",
            Self::Truncated => "truncated",
            Self::SystemChanged => "system_changed",
            Self::ToolsChanged => "tools_changed",
            Self::HistoryRewritten => "history_rewritten",
            Self::RendererCannotContinue => "renderer_cannot_continue",
            Self::ReasoningDropped => "reasoning_dropped",
            Self::CallsRespelled => "calls_respelled",
            Self::Retokenised => "retokenised",
            Self::RenderedOtherwise => "rendered_otherwise",
        }
    }
}
