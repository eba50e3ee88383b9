use std::error::Error;
use std::time::Duration;

/// What a server said wrongly, or did not say.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The URL is none of a server.
    #[error("`{url}` is not the URL of a server: {reason}; it looks like http://127.0.0.1:4747")]
    Url {
        /// What was given, without what may be a key in it.
        url: String,
        /// Why not.
        reason: String,
    },
    /// The HTTP client cannot be made.
    #[error("no HTTP client: {reason}")]
    Client {
        /// What was said.
        reason: String,
    },
    /// It was out of reach for too long.
    #[error("{url} was out of reach for {patience:?}: {reason}; does `fulgurite serve` run there?")]
    Unreachable {
        /// What was asked.
        url: String,
        /// How long.
        patience: Duration,
        /// What was seen last.
        reason: String,
    },
    /// It wants another key.
    #[error("{url} wants the server's admin key: {message} (status {status}); FULGURITE_ADMIN_KEY must hold it")]
    Key {
        /// What was asked.
        url: String,
        /// 401 or 403.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// It does not know the route.
    #[error("{url} is not there (status {status}): is that a Fulgurite server, and as new as this program?")]
    NoRoute {
        /// What was asked.
        url: String,
        /// 404 or 405.
        status: u16,
    },
    /// It will not do it.
    #[error("{url} refused (status {status}): {message}")]
    Refused {
        /// What was asked.
        url: String,
        /// The status of its answer.
        status: u16,
        /// What the server said.
        message: String,
    },
    /// It cannot read posted weights.
    #[error(
        "{path}: the server at {url} cannot read these weights: {message} (help: it must see them under the same path, so \
         mount their directory there, or train with --run-directory in one that both can read)"
    )]
    UnreadWeights {
        /// The server.
        url: String,
        /// Where they are.
        path: String,
        /// What the server said.
        message: String,
    },
    /// Its answer is not what was asked for.
    #[error("{url} gave an answer that cannot be used: {reason}")]
    Reply {
        /// What was asked.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Its answer is too large.
    #[error("{url} gave an answer of more than {limit} bytes")]
    TooLarge {
        /// What was asked.
        url: String,
        /// Bytes that it may have.
        limit: usize,
    },
}

impl ServerError {
    /// What the server said, with its status, if it was reached and will not do what it was asked.
    pub fn refusal(&self) -> Option<(u16, String)> {
        match self {
            Self::Key { status, message, .. } | Self::Refused { status, message, .. } => {
                Some((*status, message.clone()))
            }
            Self::NoRoute { status, .. } => Some((*status, self.to_string())),
            Self::Url { .. }
            | Self::UnreadWeights { .. }
            | Self::Client { .. }
            | Self::Unreachable { .. }
            | Self::Reply { .. }
            | Self::TooLarge { .. } => None,
        }
    }
}

/// An error with its causes: reqwest's own text leaves out the one that matters.
pub(crate) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
