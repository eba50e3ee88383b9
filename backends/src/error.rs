/// Why a model host could not do what it was asked.
///
/// The variants are what a caller acts on: fix the request, shorten the prompt, come back later, or give up.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The request can never succeed as it stands.
    #[error("{message}")]
    InvalidRequest {
        /// What is wrong with it, for the person who sent it.
        message: String,
    },
    /// The prompt leaves no room for a single sampled token.
    #[error("the prompt has {prompt_tokens} tokens, but this model's context length is {context_length} tokens")]
    PromptTooLong {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Tokens that prompt and answer may have together.
        context_length: usize,
    },
    /// The host has no room for another request now; the same request may succeed later.
    #[error("the model host is at its limit of {limit} waiting requests")]
    Overloaded {
        /// How many requests may wait.
        limit: usize,
    },
    /// The host is gone or shutting down.
    #[error("the model host is not available: {message}")]
    Unavailable {
        /// What was seen.
        message: String,
    },
    /// The host holds files that it cannot read, or could not write them.
    #[error("{path}: {message}")]
    Files {
        /// The file or directory.
        path: std::path::PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The host failed; not the caller's fault.
    #[error("the model host failed: {message}")]
    Internal {
        /// What was seen.
        message: String,
    },
}
