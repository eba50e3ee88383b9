use crate::text::words::{text_in_json, words};

words! {
    /// Why a prompt does not continue the latest recorded turn.
    DepartureReason {
        /// A conversation begins: no turn is recorded, or the assistant has not spoken in it yet.
        FirstTurn = "first_turn",
        /// A conversation begins in which the model is shown no tools, in an attempt in which it was shown some: if nothing
        /// goes on from it, it is a request beside the task.
        NextToTools = "beside_tools",
        /// The same request again, of a turn that is recorded.
        RequestRepeated = "request_repeated",
        /// It continues an earlier turn: conversations take turns, or the client went back.
        OtherBranch = "other_branch",
        /// Messages that had been there are no longer there.
        Truncated = "truncated",
        /// A message of the system or of the developer changed.
        SystemChanged = "system_changed",
        /// Other tools are declared, or in another order.
        ToolsChanged = "tools_changed",
        /// A message changed that was in the history.
        HistoryRewritten = "history_rewritten",
        /// The renderer cannot write what follows this turn without what comes before it.
        RendererCannotContinue = "renderer_cannot_continue",
        /// Where a template is followed faithfully: earlier reasoning is left out.
        ReasoningDropped = "reasoning_dropped",
        /// Where a template is followed faithfully: the format spells calls in another way than
        /// they were sampled.
        CallsRespelled = "calls_respelled",
        /// Where a template is followed faithfully: the same text is cut into other tokens than
        /// were sampled.
        Retokenised = "retokenised",
        /// Where a template is followed faithfully: the format writes something else of the turn
        /// in another way, such as its end.
        RenderedOtherwise = "rendered_otherwise",
    }
}

/// Why a generation does not continue the conversation's previous one token by token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchReason {
    /// The conversation departs from what is recorded.
    Departure(DepartureReason),
    /// The call was passed on to an upstream, whose tokens are not known.
    Upstream,
    /// A word of whoever made the record that was imported.
    Other(String),
}

impl BranchReason {
    /// Whether a conversation begins with it.
    pub fn begins_conversation(&self) -> bool {
        matches!(self, Self::Departure(DepartureReason::FirstTurn | DepartureReason::NextToTools))
    }

    /// The word, in JSON and in SQL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Departure(reason) => reason.as_str(),
            Self::Upstream => "upstream",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for BranchReason {
    fn from(word: String) -> Self {
        match DepartureReason::from_word(&word) {
            Some(reason) => Self::Departure(reason),
            None if word == Self::Upstream.as_str() => Self::Upstream,
            None => Self::Other(word),
        }
    }
}

text_in_json!(BranchReason);
