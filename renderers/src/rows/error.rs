//! What can be wrong with a row.

use crate::error::RenderError;

/// Error for a row that cannot be rendered or parsed.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// It is no conversation.
    #[error("not a row to render")]
    NotAConversation(#[source] serde_json::Error),
    /// It has no tokens.
    #[error("not a row to parse")]
    NotTokens(#[source] serde_json::Error),
    /// It names tokens to train on that nobody knows.
    #[error(
        "train_on: there is no `{name}`; there are last_assistant_message, last_assistant_turn, all_assistant_messages, \
         all_messages, all_tokens, all_user_and_system_messages, customized"
    )]
    UnknownTrainOn {
        /// What it names.
        name: String,
    },
    /// A message does not say whether it is trained on.
    #[error("message {index}: train_on `customized` needs `trainable`, true or false")]
    NoMark {
        /// Its place.
        index: usize,
    },
    /// The renderer refuses it.
    #[error(transparent)]
    Render(#[from] RenderError),
}
