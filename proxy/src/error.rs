use fulgurite_backends::{BackendError, ShareFull};
use fulgurite_renderers::RenderError;
use fulgurite_store::{BodyTooSlow, Refused, StoreError};

/// Why a model call failed, in no dialect yet. `openai::error` turns it into that dialect's response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProxyError {
    /// The request is malformed or asks for what cannot be honoured.
    #[error("{message}")]
    InvalidRequest {
        /// What is wrong and how to put it right.
        message: String,
        /// The field at fault.
        parameter: Option<String>,
        /// A short name for programs.
        code: Option<&'static str>,
    },
    /// The prompt leaves no room for an answer.
    #[error("the prompt has {prompt_tokens} tokens, but this model's context length is {context_length} tokens")]
    PromptTooLong {
        /// The request's field that holds the prompt.
        parameter: &'static str,
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Tokens that prompt and answer may have together.
        context_length: usize,
    },
    /// The attempt has taken all that it may.
    #[error("the attempt's budget of {of} is spent")]
    BudgetSpent {
        /// How much that was, and of what.
        of: String,
    },
    /// The prompt is longer than what the attempt's budget leaves for it.
    #[error(
        "the prompt has {prompt_tokens} tokens, but of the attempt's budget of {tokens} tokens no more than {maximum} are \
         left for it"
    )]
    TokensSpent {
        /// The request's field that holds the prompt.
        parameter: &'static str,
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// Tokens that a prompt may still have.
        maximum: usize,
        /// The budget.
        tokens: u64,
    },
    /// The body is over the limit.
    #[error("the request body is over the limit of {limit} bytes (server.body_limit_bytes)")]
    BodyTooLarge {
        /// The limit.
        limit: usize,
    },
    /// The body is longer than the model's longest prompt can be.
    #[error("the request has {bytes} bytes, but a prompt of {context_length} tokens takes at most {limit}")]
    BodyOverContext {
        /// Bytes of the body.
        bytes: usize,
        /// The most that a prompt of the context's length takes, JSON around it included.
        limit: usize,
        /// Tokens that prompt and answer may have together.
        context_length: usize,
    },
    /// Other large requests wait already.
    #[error(transparent)]
    TooManyLarge(#[from] ShareFull),
    /// No model of that name is served.
    #[error("the model `{model}` does not exist here; served: {served}")]
    UnknownModel {
        /// What was asked for.
        model: String,
        /// Names that are served.
        served: String,
    },
    /// Path or headers name what is not in the store.
    #[error("there is no {kind} `{id}`")]
    UnknownTarget {
        /// `rollout`, `attempt` or `response`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The attempt has ended; what it samples could not be trained any more.
    #[error("the attempt `{attempt_id}` has ended ({status}) and takes no more calls")]
    AttemptEnded {
        /// The attempt.
        attempt_id: String,
        /// How it ended.
        status: String,
    },
    /// The method is not for this path.
    #[error("{method} is not allowed here")]
    MethodNotAllowed {
        /// What was tried.
        method: String,
    },
    /// There is no such route.
    #[error("there is no route {method} {path}")]
    UnknownRoute {
        /// The method.
        method: String,
        /// The path.
        path: String,
    },
    /// It is not let in.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The body did not arrive in time.
    #[error(transparent)]
    BodyTooSlow(#[from] BodyTooSlow),
    /// The model's host took too long.
    #[error("{awaited} did not come within {seconds} seconds ({key})")]
    SamplerTimeout {
        /// What of the answer.
        awaited: &'static str,
        /// How long it was waited for.
        seconds: f64,
        /// The limit's key in the config.
        key: &'static str,
    },
    /// The conversation cannot be rendered.
    #[error("{error}")]
    Render {
        /// The request's field that holds the prompt.
        parameter: &'static str,
        /// Why not.
        error: RenderError,
    },
    /// The model host refused or failed.
    #[error(transparent)]
    Backend(#[from] BackendError),
    /// The record could not be written.
    #[error("the call could not be recorded: {0}")]
    Store(#[from] StoreError),
}

impl From<RenderError> for ProxyError {
    /// Of a conversation that stands where chats have it.
    fn from(error: RenderError) -> Self {
        ProxyError::Render { parameter: "messages", error }
    }
}

impl ProxyError {
    /// No event of a call is left, though there should be one that ends it.
    pub(crate) fn broken_off() -> Self {
        BackendError::Internal { message: "the call ended without an answer".to_owned() }.into()
    }

    /// A request that names what is wrong in which field.
    pub(crate) fn invalid(parameter: &str, message: impl Into<String>) -> Self {
        ProxyError::InvalidRequest { message: message.into(), parameter: Some(parameter.to_owned()), code: None }
    }

    /// The error, which names the request's field that holds the prompt if it is about that.
    pub(crate) fn about_prompt(self, parameter: &'static str) -> Self {
        match self {
            ProxyError::Render { error, .. } => ProxyError::Render { parameter, error },
            ProxyError::Backend(BackendError::PromptTooLong { prompt_tokens, context_length }) => {
                ProxyError::PromptTooLong { parameter, prompt_tokens, context_length }
            }
            other => other,
        }
    }
}
