use axum::http::StatusCode;
use fulgurite_api::{BodyTooSlow, Refused};
use fulgurite_backends::{BackendError, ShareFull};
use fulgurite_renderers::RenderError;
use fulgurite_store::{KeyRefused, StoreError};
use fulgurite_types::{AttemptNote, EpisodeStop, PartNotText};

use super::other_base::OtherBase;
use super::queued_work::QueuedWork;
use super::wire_error::{CONTEXT_LENGTH_EXCEEDED, Dialect, DialectWords, ErrorDetails, WireError};
use crate::base_url::RightCall;
use crate::request_fields::TEMPLATE_ARGUMENTS;

/// Defines the errors: each with its message and its fields, and after `=>` its status, code and the like, in which the
/// fields may be named.
macro_rules! define_errors {
    (
        $(#[$($enum_meta:tt)*])*
        pub(crate) enum $errors:ident {$(
            $(#[$($meta:tt)*])*
            $name:ident
                $({ $($(#[$($field_meta:tt)*])* $field:ident: $type:ty,)* })?
                $(($inner:ident: #[from] $inner_type:ty))?
                => $details:expr;
        )*}
    ) => {
        $(#[$($enum_meta)*])*
        pub(crate) enum $errors {
            $($(#[$($meta)*])* $name $({ $($(#[$($field_meta)*])* $field: $type,)* })? $((#[from] $inner_type))?,)*
        }

        impl $errors {
            #[allow(unused_variables)]
            fn details(&self) -> ErrorDetails<'_> {
                match self {
                    $($errors::$name $({ $($field,)* })? $(($inner))? => $details,)*
                }
            }
        }
    };
}

define_errors! {
    /// Why a model call failed, in no dialect yet.
    #[derive(Debug, thiserror::Error)]
    pub(crate) enum ProxyError {
        /// The request is malformed or cannot be honoured.
        #[error("{message}")]
        InvalidRequest {
            /// What is wrong and how to put it right.
            message: String,
            /// The field at fault.
            parameter: Option<String>,
            /// A short name for programs.
            code: Option<&'static str>,
        } => match parameter {
            Some(parameter) => ErrorDetails::new(StatusCode::BAD_REQUEST, *code).about(parameter),
            None => ErrorDetails::new(StatusCode::BAD_REQUEST, *code),
        };

        /// Only graders call the model.
        #[error(
            "the model `{model}` judges attempts, and the limits of [runner.rubric] count its calls: only a grader's key or \
             the admin key opens it (help: an agent that needs it calls it by another name, a second entry of [[models]])"
        )]
        ModelReserved {
            /// Its name.
            model: String,
        } => ErrorDetails::new(StatusCode::FORBIDDEN, "model_reserved").about("model");

        /// The prompt leaves no room for an answer.
        #[error("the prompt has {prompt_tokens} tokens, but this model's context length is {context_length} tokens")]
        PromptTooLong {
            /// The request's field that holds the prompt.
            parameter: &'static str,
            /// Tokens in the prompt.
            prompt_tokens: usize,
            /// Tokens that prompt and answer may have together.
            context_length: usize,
        } => prompt_too_long(*prompt_tokens, *context_length).about(*parameter);

        /// The attempt has taken all that it may.
        #[error("the attempt's budget of {of} is spent")]
        BudgetSpent {
            /// How much that was, and of what.
            of: String,
            /// What that is for the episode.
            stop: EpisodeStop,
        } => ErrorDetails::new(StatusCode::BAD_REQUEST, "budget_exceeded");

        /// The prompt is longer than what the attempt's budget leaves for it.
        #[error(
            "the prompt has {prompt_tokens} tokens, but of the attempt's budget of {tokens} tokens no more than {maximum} \
             are left for it"
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
        } => ErrorDetails::new(StatusCode::BAD_REQUEST, CONTEXT_LENGTH_EXCEEDED).about(*parameter).words(DialectWords {
            openai: format!(
                "{} No more is left of the attempt's budget of {tokens} tokens.",
                openais_too_long(*prompt_tokens, *maximum)
            ),
            anthropic: anthropics_too_long(*prompt_tokens, *maximum),
            google: googles_too_long(*prompt_tokens, *maximum),
        });

        /// The body is over the limit.
        #[error("the request body is over the limit of {limit} bytes (server.body_limit_bytes)")]
        BodyTooLarge {
            /// The limit.
            limit: usize,
        } => ErrorDetails::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large");

        /// The body is longer than the model's longest prompt can be.
        #[error("the request has {bytes} bytes, but a prompt of {context_length} tokens takes at most {limit}")]
        BodyOverContext {
            /// Bytes of the body.
            bytes: usize,
            /// The most that a prompt of the context's length takes, JSON around it included.
            limit: usize,
            /// Tokens that prompt and answer may have together.
            context_length: usize,
        } => ErrorDetails::new(StatusCode::BAD_REQUEST, CONTEXT_LENGTH_EXCEEDED).words(DialectWords {
            openai: format!(
                "This model's maximum context length is {context_length} tokens. However, your request has {bytes} bytes, \
                 and no prompt of so many tokens takes more than {limit}. Please reduce the length of the messages."
            ),
            anthropic: format!(
                "prompt is too long: a request of {bytes} bytes, and {context_length} tokens take at most {limit}"
            ),
            google: format!(
                "The input token count exceeds the maximum number of tokens allowed ({context_length}): the request has \
                 {bytes} bytes, and no prompt of so many tokens takes more than {limit}."
            ),
        });

        /// The queue for work that takes long is full.
        #[error("{work}, so that it has to wait for its turn, but {full}")]
        TooManyWaiting {
            /// Why the request has to wait.
            work: QueuedWork,
            /// How many wait before it.
            full: ShareFull,
        } => ErrorDetails::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_exceeded");

        /// No model of that name is served.
        #[error("the model `{model}` does not exist here; served: {served}")]
        UnknownModel {
            /// What was requested.
            model: String,
            /// Names that are served.
            served: String,
        } => ErrorDetails::new(StatusCode::NOT_FOUND, "model_not_found").about("model");

        /// No weights of that name are kept.
        #[error("there are no weights `{name}` here; kept: {kept}")]
        UnknownWeights {
            /// What was requested.
            name: String,
            /// Names of those that there are.
            kept: String,
        } => ErrorDetails::new(StatusCode::NOT_FOUND, "model_not_found").about("model");

        /// Other weights are behind the model than those that the posted ones may take the place of.
        #[error(
            "the model `{model}` has {current}, and {posted} may not take its place (help: {}`\"replaces\": \"anything\"` \
             replaces whatever is there)",
            replacing(.version)
        )]
        WeightsInPlace {
            /// Its name.
            model: String,
            /// What was posted.
            posted: String,
            /// What is behind it: the version, and who made it.
            current: String,
            /// The version that is behind it.
            version: u64,
        } => ErrorDetails::new(StatusCode::CONFLICT, "weights_in_place").about("replaces");

        /// A version was posted that names other weights.
        #[error(
            "version {version} of the model `{model}` names other weights, and for ever (help: leave `version` out, and they \
             get the next number that is free)"
        )]
        VersionOfOthers {
            /// Whose weights.
            model: String,
            /// What was posted.
            version: u64,
        } => ErrorDetails::new(StatusCode::CONFLICT, "version_names_other_weights").about("version");

        /// A version was posted that names a run's weights, and not as that run's.
        #[error(
            "version {version} of the model `{model}` names weights of run {run_id}{}, and these are not posted as that \
             run's (help: leave `version` out, and they get the next number that is free, or post them under another; a \
             trainer of an earlier release names no run: update it)",
            after(.step)
        )]
        VersionOfRun {
            /// Name of the model.
            model: String,
            /// The posted version.
            version: u64,
            /// The run that named it.
            run_id: String,
            /// Updates of that run behind them, if they are known.
            step: Option<u64>,
        } => ErrorDetails::new(StatusCode::CONFLICT, "version_names_other_weights").about("version");

        /// A version was posted that was published with other files before, or over another base.
        #[error(
            "version {version} of the model `{model}` was published with other files, or over another base: {known} (help: \
             leave `version` out, and these get the next number that is free)"
        )]
        VersionOfOtherFiles {
            /// Name of the model.
            model: String,
            /// The posted version.
            version: u64,
            /// Where the files of the version are.
            known: String,
        } => ErrorDetails::new(StatusCode::CONFLICT, "version_has_other_files").about("version");

        /// An adapter was posted that is over another model than the one that this server was started with.
        #[error("{error}")]
        OtherBase {
            /// Over which, and what the server has.
            error: OtherBase,
        } => ErrorDetails::new(StatusCode::UNPROCESSABLE_ENTITY, "other_base").about("base");

        /// This server, or the model's host, cannot read the files of posted weights.
        #[error("{error}")]
        WeightsUnread {
            /// Which file, and why not.
            error: BackendError,
        } => ErrorDetails::new(StatusCode::UNPROCESSABLE_ENTITY, "weights_unread");

        /// The model's host takes no such weights.
        #[error("{error}")]
        WeightsUnusable {
            /// Why not.
            error: BackendError,
        } => ErrorDetails::new(StatusCode::UNPROCESSABLE_ENTITY, "weights_not_taken");

        /// The server could not load the newest weights, and is told to take no calls then.
        #[error(
            "the model `{model}` takes no calls at this server, which could not load its newest weights: {reason} \
             (server.without_new_weights)"
        )]
        WithoutNewWeights {
            /// Its name.
            model: String,
            /// Why they could not be loaded.
            reason: String,
        } => ErrorDetails::new(StatusCode::SERVICE_UNAVAILABLE, "without_new_weights");

        /// Path or headers name what is not in the store.
        #[error("there is no {kind} `{id}`")]
        UnknownTarget {
            /// `rollout`, `attempt` or `response`.
            kind: &'static str,
            /// Its id.
            id: String,
        } => ErrorDetails::new(StatusCode::NOT_FOUND, match *kind {
            "rollout" => "rollout_not_found",
            "response" => "response_not_found",
            _ => "attempt_not_found",
        });

        /// The attempt has ended; what it samples could not be trained any more.
        #[error("the attempt `{attempt_id}` has ended ({status}) and takes no more calls")]
        AttemptEnded {
            /// The attempt.
            attempt_id: String,
            /// How it ended.
            status: String,
        } => ErrorDetails::new(StatusCode::GONE, "attempt_ended");

        /// The method is not for this path.
        #[error("{method} is not allowed here")]
        MethodNotAllowed {
            /// What was tried.
            method: String,
        } => ErrorDetails::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed");

        /// There is no such route.
        #[error("there is no route {method} {path}{}", right_call_help(.right.as_ref()))]
        UnknownRoute {
            /// The method.
            method: String,
            /// The path.
            path: String,
            /// How its client makes the call that it meant, where that is known.
            right: Option<RightCall>,
        } => ErrorDetails::new(StatusCode::NOT_FOUND, "unknown_url");

        /// OpenAI's or Anthropic's own servers serve it, and this one does not.
        #[error("{what} not served here: {instead}")]
        NotServed {
            /// What is not, with its verb.
            what: &'static str,
            /// What does the same.
            instead: &'static str,
        } => ErrorDetails::new(StatusCode::NOT_FOUND, "not_served");

        /// It is not let in.
        #[error(transparent)]
        Refused(refused: #[from] Refused) => ErrorDetails::new(refused.status(), match refused {
            Refused::Key(KeyRefused::Unknown | KeyRefused::Expired { .. }) => "invalid_api_key",
            Refused::Key(
                KeyRefused::OtherRollout { .. }
                | KeyRefused::OtherWorker { .. }
                | KeyRefused::ReadsOnly
                | KeyRefused::AdminOnly { .. },
            ) => "insufficient_permissions",
            Refused::ForeignHost { .. } => "foreign_host",
            Refused::ForeignOrigin { .. } => "foreign_origin",
            Refused::ShuttingDown => "shutting_down",
            Refused::PathNotText { .. } => "path_not_text",
            Refused::BodyTooLarge { .. } => "request_too_large",
        });

        /// The body did not arrive in time.
        #[error(transparent)]
        BodyTooSlow(slow: #[from] BodyTooSlow) => ErrorDetails::new(StatusCode::REQUEST_TIMEOUT, "request_timeout");

        /// The model's host took too long.
        #[error("{awaited} did not come within {seconds} seconds ({key})")]
        SamplerTimeout {
            /// What of the answer.
            awaited: &'static str,
            /// How long it was waited for.
            seconds: f64,
            /// The limit's key in the config.
            key: &'static str,
        } => ErrorDetails::new(StatusCode::GATEWAY_TIMEOUT, "sampler_timeout");

        /// The conversation cannot be rendered.
        #[error("{error}")]
        Render {
            /// The request's field that holds the prompt.
            parameter: &'static str,
            /// Why not.
            error: RenderError,
        } => match error {
            RenderError::File { .. }
            | RenderError::MissingToken { .. }
            | RenderError::UnknownRenderer { .. }
            | RenderError::UnsupportedRenderer { .. }
            | RenderError::NoTemplate { .. } => ErrorDetails::new(StatusCode::INTERNAL_SERVER_ERROR, None),
            RenderError::ArgumentsUnsupported { .. } => {
                ErrorDetails::new(StatusCode::BAD_REQUEST, None).about(TEMPLATE_ARGUMENTS)
            }
            RenderError::ToolsUnsupported { .. } => ErrorDetails::new(StatusCode::BAD_REQUEST, None).about("tools"),
            RenderError::Tool { tool_index, .. } => {
                ErrorDetails::new(StatusCode::BAD_REQUEST, None).about(format!("tools[{tool_index}]"))
            }
            _ => ErrorDetails::new(StatusCode::BAD_REQUEST, None).about(*parameter),
        };

        /// The model host refused or failed.
        #[error(transparent)]
        Backend(error: #[from] BackendError) => match error {
            BackendError::InvalidRequest { .. } => ErrorDetails::new(StatusCode::BAD_REQUEST, None),
            BackendError::PromptTooLong { prompt_tokens, context_length } => {
                prompt_too_long(*prompt_tokens, *context_length)
            }
            BackendError::Overloaded { .. } => {
                ErrorDetails::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded").anthropic_status(529)
            }
            BackendError::Unavailable { .. } => ErrorDetails::new(StatusCode::SERVICE_UNAVAILABLE, "backend_unavailable"),
            BackendError::BrokenAnswer { .. } => ErrorDetails::new(StatusCode::BAD_GATEWAY, "backend_failed"),
            BackendError::Files { .. }
            | BackendError::Damaged(_)
            | BackendError::Configuration { .. }
            | BackendError::KeyRefused { .. }
            | BackendError::Superseded { .. }
            | BackendError::Unread { .. }
            | BackendError::Internal { .. } => ErrorDetails::new(StatusCode::INTERNAL_SERVER_ERROR, None),
        };

        /// The record could not be written.
        #[error("the call could not be recorded: {0}")]
        Store(error: #[from] StoreError) => match error {
            StoreError::NotFound { .. } => ErrorDetails::new(StatusCode::NOT_FOUND, None),
            StoreError::AmbiguousSession { .. } => ErrorDetails::new(StatusCode::CONFLICT, "ambiguous_session"),
            _ => ErrorDetails::new(StatusCode::SERVICE_UNAVAILABLE, "record_failed"),
        };
    }
}

/// How the weights of a version are replaced, and no others.
fn replacing(version: &u64) -> String {
    format!("`\"replaces\": {version}` replaces these weights, ")
}

fn after(step: &Option<u64>) -> String {
    step.map_or_else(String::new, |step| format!(" after {step} updates"))
}

fn prompt_too_long(prompt_tokens: usize, context_length: usize) -> ErrorDetails<'static> {
    ErrorDetails::new(StatusCode::BAD_REQUEST, CONTEXT_LENGTH_EXCEEDED).words(DialectWords {
        openai: openais_too_long(prompt_tokens, context_length),
        // An answer needs room for a token.
        anthropic: anthropics_too_long(prompt_tokens, context_length.saturating_sub(1)),
        google: googles_too_long(prompt_tokens, context_length.saturating_sub(1)),
    })
}

/// Agents and gateways recognise a prompt that is too long by OpenAI's message.
fn openais_too_long(prompt_tokens: usize, maximum: usize) -> String {
    format!(
        "This model's maximum context length is {maximum} tokens. However, your messages resulted in {prompt_tokens} \
         tokens. Please reduce the length of the messages."
    )
}

/// Agents shorten their conversation when they find Anthropic's message for a prompt that is too long.
fn anthropics_too_long(prompt_tokens: usize, maximum: usize) -> String {
    format!("prompt is too long: {prompt_tokens} tokens > {maximum} maximum")
}

/// The words of Google's own servers for a prompt that is too long.
fn googles_too_long(prompt_tokens: usize, maximum: usize) -> String {
    format!("The input token count ({prompt_tokens}) exceeds the maximum number of tokens allowed ({maximum}).")
}

impl From<PartNotText> for ProxyError {
    fn from(error: PartNotText) -> Self {
        RenderError::from(error).into()
    }
}

impl From<RenderError> for ProxyError {
    /// Of a conversation in the field of chats.
    fn from(error: RenderError) -> Self {
        ProxyError::Render { parameter: "messages", error }
    }
}

impl ProxyError {
    /// What is to be noted of the attempt whose call failed with it, if anything is.
    pub(crate) fn note(&self) -> Option<AttemptNote> {
        match self {
            Self::BudgetSpent { stop, .. } => Some(AttemptNote::Stop(*stop)),
            Self::Refused(_) | Self::Store(_) => None,
            other => other.details().note(),
        }
    }

    /// The error as a dialect writes it down.
    pub(crate) fn in_dialect(&self, dialect: Dialect) -> WireError {
        self.details().in_dialect(dialect, self)
    }

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
/// What to change in a client whose calls go to a path that is no route.
fn right_call_help(right: Option<&RightCall>) -> String {
    match right {
        Some(RightCall::BaseUrl(url)) => format!("; set the client's base URL to {url}"),
        Some(RightCall::Path(path)) => format!("; the path is {path}, without a slash at its end"),
        None => String::new(),
    }
}
