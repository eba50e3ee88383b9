use crate::text::words::text_in_json;

/// Why the sampling of a recorded answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model ended its answer, or a stop string did.
    Stop,
    /// No more tokens were allowed, or the context had no room for more.
    Length,
    /// The client hung up, or the server was shut down; a retry goes on behind what was sampled.
    ClientDisconnected,
    /// The sampler failed in the middle of the answer: the client got an error instead of these tokens.
    Error,
    /// A word of an upstream's, or of whoever made the record that was imported.
    Other(String),
}

impl StopReason {
    /// The word, in JSON and in SQL.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ClientDisconnected => Self::CLIENT_DISCONNECTED,
            Self::Error => Self::ERROR,
            Self::Other(word) => word,
        }
    }

    /// The word of [`Error`](Self::Error).
    pub const ERROR: &'static str = "error";

    /// The word of [`ClientDisconnected`](Self::ClientDisconnected), for SQL.
    pub const CLIENT_DISCONNECTED: &'static str = "client_gone";

    /// Whether the answer came to its own end, so that a conversation can go on behind it.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Stop | Self::Length)
    }
}

impl From<String> for StopReason {
    fn from(word: String) -> Self {
        [Self::Stop, Self::Length, Self::ClientDisconnected, Self::Error]
            .into_iter()
            .find(|known| known.as_str() == word)
            .unwrap_or(Self::Other(word))
    }
}

text_in_json!(StopReason);
