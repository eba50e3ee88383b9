use fulgurite_types::{Message, StopReason};

use crate::error::ProxyError;
use crate::reply::finish_reason::FinishReason;

/// How sampling ended.
pub(crate) enum End {
    Finished(FinishReason),
    ClientDisconnected,
    /// The server ends before it does.
    ShutDown,
    Broken(ProxyError),
}

impl End {
    /// Why an answer ended that did; of any other, that it stopped.
    pub(crate) fn reason(&self) -> FinishReason {
        match self {
            End::Finished(reason) => *reason,
            End::ClientDisconnected | End::ShutDown | End::Broken(_) => FinishReason::Stop,
        }
    }

    /// The end, at which a failure about the prompt names the request's field that holds it.
    pub(crate) fn of_prompt(self, parameter: &'static str) -> Self {
        match self {
            End::Broken(error) => End::Broken(error.about_prompt(parameter)),
            other => other,
        }
    }

    /// The end where a stop string stood in what was held back to the last.
    pub(crate) fn at_stop_string(self) -> Self {
        match self {
            End::Finished(_) => End::Finished(FinishReason::Stop),
            other => other,
        }
    }

    /// The finish reason in the record of its message.
    pub(crate) fn finish_reason(&self, message: &Message) -> &'static str {
        match self {
            End::Finished(reason) => reason.of_message(message).as_str(),
            End::ClientDisconnected | End::ShutDown => StopReason::CLIENT_DISCONNECTED,
            End::Broken(_) => StopReason::ERROR,
        }
    }

    /// As the record has it.
    pub(crate) fn stop_reason(&self) -> StopReason {
        match self {
            End::Finished(FinishReason::Length) => StopReason::Length,
            End::Finished(FinishReason::Stop | FinishReason::ToolCalls) => StopReason::Stop,
            End::ClientDisconnected | End::ShutDown => StopReason::ClientDisconnected,
            End::Broken(_) => StopReason::Error,
        }
    }
}
