use crate::DamagedFiles;

/// Why a model host could not do what was requested.
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
    /// Weights that were written here are not what was written.
    #[error(transparent)]
    Damaged(DamagedFiles),
    /// A remote host cannot be used as it is configured.
    #[error("{message}")]
    Configuration {
        /// What is wrong, and with which part of the configuration.
        message: String,
    },
    /// A remote host refuses the key that it is sent, or is sent none.
    #[error("{message}")]
    KeyRefused {
        /// What the host answers, and where its key comes from.
        message: String,
    },
    /// A server cannot read the weights that are to be put behind its model, or has no model that they are for.
    #[error("{message}")]
    Unread {
        /// Which weights, and what to do about it.
        message: String,
    },
    /// Others have put weights behind the model since, which may not be replaced unasked.
    #[error("{message}")]
    Superseded {
        /// What is there.
        message: String,
    },
    /// A remote host broke off its answer, or gave one that cannot be trusted from there on.
    #[error("the answer of the model host at {host} is broken: {fault}")]
    BrokenAnswer {
        /// The host's URL.
        host: String,
        /// What is wrong with it.
        fault: AnswerFault,
    },
    /// The host failed; not the caller's fault.
    #[error("the model host failed: {message}")]
    Internal {
        /// What was seen.
        message: String,
    },
}

impl BackendError {
    /// Whether another host of the same model might do what this one could not.
    pub fn is_hosts_fault(&self) -> bool {
        match self {
            Self::InvalidRequest { .. }
            | Self::PromptTooLong { .. }
            | Self::Superseded { .. }
            | Self::Unread { .. } => false,
            Self::Overloaded { .. }
            | Self::Unavailable { .. }
            | Self::Files { .. }
            | Self::Damaged(_)
            | Self::Configuration { .. }
            | Self::KeyRefused { .. }
            | Self::BrokenAnswer { .. }
            | Self::Internal { .. } => true,
        }
    }
}

/// What is wrong with a remote host's answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AnswerFault {
    /// A page of a gateway, most likely.
    #[error("a stream of events was asked for, and `{content_type}` came")]
    NotAStream {
        /// The answer's content type.
        content_type: String,
    },
    /// Bytes that are no text.
    #[error("an event is not UTF-8")]
    NotUtf8,
    /// More than an event can be.
    #[error("an event has more than {limit} bytes")]
    EventTooLong {
        /// The limit.
        limit: usize,
    },
    /// More than an answer can be.
    #[error("it has more than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// No JSON, or not the JSON that the wire has.
    #[error("what came cannot be read: {message}")]
    Unreadable {
        /// The reader's message.
        message: String,
    },
    /// The host itself says that it failed.
    #[error("the host says: {message}")]
    HostError {
        /// Its words.
        message: String,
    },
    /// The host finds the request wrong, and says so only in the stream.
    #[error("the model host refuses the request: {message}")]
    Refused {
        /// Its words.
        message: String,
    },
    /// Text without the ids of its tokens.
    #[error("the ids of the sampled tokens are missing")]
    NoTokenIds,
    /// A token without its logprob.
    #[error("the logprob of token {token} is missing")]
    NoLogprob {
        /// Its id.
        token: i64,
    },
    /// No number that a logprob can be.
    #[error("the logprob of token {token} is {logprob}")]
    Logprob {
        /// Its id.
        token: i64,
        /// What came.
        logprob: f64,
    },
    /// Lists that belong together differ in length.
    #[error("{tokens} tokens came with {logprobs} logprobs")]
    CountsDiffer {
        /// Tokens.
        tokens: usize,
        /// Logprobs.
        logprobs: usize,
    },
    /// Tokens that the host sampled and keeps to itself.
    #[error(
        "{sampled} tokens were sampled and {reported} came: the host keeps those of a character to itself while it is incomplete"
    )]
    TokensUnreported {
        /// Tokens sampled.
        sampled: usize,
        /// Tokens that came.
        reported: usize,
    },
    /// Two places tell the same token differently.
    #[error("token {position} of the answer is told as {one} and as {other}")]
    TokensDiffer {
        /// Index into the sampled tokens.
        position: usize,
        /// One telling.
        one: String,
        /// The other.
        other: String,
    },
    /// An id that the model does not have.
    #[error("there is no token {token}; ids are below {vocabulary_size}")]
    UnknownToken {
        /// What came.
        token: i64,
        /// The limit.
        vocabulary_size: usize,
    },
    /// The host sampled after another prompt than was sent.
    #[error("the prompt that it was sampled after is not the one that was sent")]
    PromptDiffers,
    /// More than was requested.
    #[error("more than the {limit} tokens that were asked for came")]
    TooManyTokens {
        /// What was requested.
        limit: usize,
    },
    /// A stop token with tokens behind it.
    #[error("tokens came after the stop token")]
    BeyondStopToken,
    /// The end by a stop token, without the token.
    #[error("it is said to have ended by a stop token, but the last token is none")]
    NotAtStopToken,
    /// An end that is neither by stop token nor by length.
    #[error("it ended for the unknown reason `{reason}`")]
    UnknownEnd {
        /// The host's word for it.
        reason: String,
    },
    /// The connection ended before the answer.
    #[error("it broke off before its end{message}")]
    BrokenOff {
        /// What was seen, after a colon; empty for a regular end of the connection.
        message: String,
    },
    /// The connection stands, and nothing comes.
    #[error("nothing came for {seconds} seconds")]
    Silent {
        /// The limit.
        seconds: u64,
    },
    /// The weights' versions do not cover the tokens.
    #[error("the versions of its weights do not cover its {tokens} tokens without gap and overlap")]
    WeightsVersions {
        /// Tokens.
        tokens: usize,
    },
}
