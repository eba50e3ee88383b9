//! What can go wrong with a reply.

use fulgurite_backends::AnswerFault;
use reqwest::StatusCode;

/// Error for a reply that did not come, or broke off.
#[derive(Debug, thiserror::Error)]
pub enum ChatError {
    /// The host sent an error in the stream.
    #[error("the model's host says: {message}")]
    Stated {
        /// What it says.
        message: String,
    },
    /// The host refused the request.
    #[error("the model's host says {status}: {message}")]
    Refused {
        /// The status.
        status: StatusCode,
        /// What it says.
        message: String,
    },
    /// No host answers.
    #[error("cannot reach {url}")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// Why not.
        source: reqwest::Error,
    },
    /// The stream ended early.
    #[error("the reply broke off")]
    BrokeOff(#[source] reqwest::Error),
    /// An event holds something else.
    #[error("the model's host sends no JSON")]
    NotJson(#[from] serde_json::Error),
    /// The stream is none of events.
    #[error("the model's host sends no events")]
    NotEvents(#[source] AnswerFault),
}
