use fulgurite_backends::SamplingEnd;
use fulgurite_types::{Message, StopReason};

/// Why an answer ended, as in every dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FinishReason {
    /// By itself, or at a stop string.
    Stop,
    /// The same, with calls that are to be answered.
    ToolCalls,
    /// At a limit of tokens.
    Length,
}

impl From<SamplingEnd> for FinishReason {
    fn from(reason: SamplingEnd) -> Self {
        match reason {
            SamplingEnd::StopToken => FinishReason::Stop,
            SamplingEnd::Length => FinishReason::Length,
        }
    }
}

impl FinishReason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::Length => "length",
        }
    }

    /// How sampling ended, from the record; `None` if it was broken off.
    pub(crate) fn recorded(stop_reason: &StopReason) -> Option<Self> {
        match stop_reason {
            StopReason::Stop => Some(FinishReason::Stop),
            StopReason::Length => Some(FinishReason::Length),
            StopReason::ClientDisconnected | StopReason::Error | StopReason::Other(_) => None,
        }
    }

    /// The finish reason of a message whose sampling ended so.
    pub(crate) fn of_message(self, message: &Message) -> Self {
        match self {
            FinishReason::Stop if !message.tool_calls.is_empty() => FinishReason::ToolCalls,
            reason => reason,
        }
    }
}
