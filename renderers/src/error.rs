use std::path::PathBuf;

use fulgurite_types::PartNotText;

/// Why tokens could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A file of the model directory cannot be used, or cannot be written.
    #[error("{path}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The tokenizer failed.
    #[error("the tokenizer failed: {message}")]
    Tokenizer {
        /// Its message.
        message: String,
    },
    /// The tokenizer lacks a token that the format is made of.
    #[error("the {renderer} format needs the token `{token}`, which this tokenizer does not have")]
    MissingToken {
        /// The format.
        renderer: String,
        /// The token's text.
        token: String,
    },
    /// No such renderer.
    #[error("there is no renderer `{name}`; there are {}", crate::renderer_names().join(", "))]
    UnknownRenderer {
        /// What was requested.
        name: String,
    },
    /// A renderer that models are known to need and that is not written.
    #[error("the format of the renderer `{name}` is not known here; a model that needs it cannot be rendered")]
    UnsupportedRenderer {
        /// What was requested.
        name: String,
    },
    /// Neither the model's files nor the caller say how to write a conversation.
    #[error("{path} has no chat template, and its tokenizer lacks the tokens of ChatML")]
    NoTemplate {
        /// The model directory.
        path: PathBuf,
    },
    /// A content part that has no tokens.
    #[error(transparent)]
    PartNotText(#[from] PartNotText),
    /// The message has something that the format cannot write.
    #[error("message {message_index}: {message}")]
    Message {
        /// Which message, from 0.
        message_index: usize,
        /// What is wrong with it.
        message: String,
    },
    /// An answer cannot be kept to what was requested while it is sampled.
    #[error("the {renderer} format cannot keep an answer to this: {message}")]
    ShapeUnsupported {
        /// The format.
        renderer: String,
        /// Why.
        message: String,
    },
    /// Tools are to be declared by a preamble in a format that declares them itself.
    #[error(
        "the {renderer} format has its own way to declare tools: tools = \"preamble\" is for auto, template and chatml"
    )]
    PreambleUnsupported {
        /// The format.
        renderer: String,
    },
    /// The format has no way to declare tools.
    #[error(
        "the {renderer} format cannot declare tools; a model that is served with tools = \"preamble\" is told of them in words"
    )]
    ToolsUnsupported {
        /// The format.
        renderer: String,
    },
    /// A tool declaration that cannot be read.
    #[error("tool {tool_index} {message}")]
    Tool {
        /// Which tool, from 0.
        tool_index: usize,
        /// What is wrong with it.
        message: String,
    },
    /// The template does not compile, refused the conversation by `raise_exception`, or failed on it.
    #[error("the chat template failed: {message}")]
    Template {
        /// Its message.
        message: String,
    },
    /// The template looks into the messages' text, so that text spelling a control token cannot be told from the
    /// template's own control tokens.
    #[error(
        "a message holds characters of control tokens (such as `<`), and this chat template changes or looks into the text \
         of messages, so that the message's text cannot be distinguished from control tokens"
    )]
    ContentNotSeparable,
    /// A date that is none.
    #[error("`{date}` is no date; dates are written YYYY-MM-DD")]
    Date {
        /// What was given.
        date: String,
    },
    /// The format takes no variables from the caller.
    #[error("the {renderer} format takes no template arguments (chat_template_kwargs); the model's own template does")]
    ArgumentsUnsupported {
        /// The format.
        renderer: String,
    },
    /// A rule for volatile text whose pattern is none.
    #[error("volatile rule `{name}`: {message}")]
    VolatileRule {
        /// The rule.
        name: String,
        /// What is wrong with its pattern.
        message: String,
    },
    /// The template does not show an assistant's turn and its end, so that what follows it cannot be rendered alone.
    #[error("the chat template writes no end of an assistant's turn after which messages could be added")]
    NoTurnEnd,
    /// A token that ends a turn was sampled more than once.
    #[error(
        "When parsing response, expected to split into 1 or 2 pieces using stop tokens, but got {count}. You probably \
         are using the wrong stop tokens when sampling"
    )]
    StopTokensRepeated {
        /// How often.
        count: usize,
    },
    /// One of several tokens that end a turn was sampled more than once.
    #[error(
        "When parsing response, expected at most 1 {token} token, but got {count}. You probably are using the wrong \
         stop tokens when sampling"
    )]
    StopTokenRepeated {
        /// The token's text.
        token: &'static str,
        /// How often.
        count: usize,
    },
    /// No message of the conversation is to be trained.
    #[error("the conversation has no message to train on")]
    NothingToTrain,
    /// Not one mark per message.
    #[error("{marks} marks say which of {messages} messages to train on; there must be one for each")]
    WrongNumberOfMarks {
        /// How many marks were given.
        marks: usize,
        /// How many messages the conversation has.
        messages: usize,
    },
    /// The format writes an earlier turn otherwise than when it was sampled, so that one sequence cannot hold both what
    /// the model samples and the messages of others.
    #[error(
        "the {renderer} format rewrites earlier turns; it can train assistant messages, each in the context in which \
         it is sampled, but not other messages"
    )]
    TrainsMoreThanAssistant {
        /// The format.
        renderer: String,
    },
    /// The whole conversation does not begin with the prompt from which a message would have been sampled.
    #[error(
        "message {message_index}: the rendered conversation does not begin with the prompt that this message answers, \
         so the format would train it in a context that it is never sampled in"
    )]
    NotAppendOnly {
        /// Which message, from 0.
        message_index: usize,
    },
    /// A turn that reasons, in a format whose prompt tells the model not to.
    #[error(
        "message {message_index}: the turn reasons, but the {renderer} format tells the model not to; train it with a \
         format that lets the model reason, or without its reasoning"
    )]
    ReasoningDisabled {
        /// The format.
        renderer: String,
        /// Which message, from 0.
        message_index: usize,
    },
    /// The format writes no stop token after an assistant message.
    #[error("message {message_index}: no stop token ends this message in the rendered conversation")]
    NoStop {
        /// Which message, from 0.
        message_index: usize,
    },
}

impl RenderError {
    /// The error of one of `written` messages, counted as the caller counts the `given` ones: a format adds messages
    /// only at the beginning.
    pub(crate) fn of_given_message(mut self, written: usize, given: usize) -> Self {
        if let Self::PartNotText(PartNotText { message_index, .. }) | Self::Message { message_index, .. } = &mut self {
            *message_index = (*message_index + given).saturating_sub(written);
        }
        self
    }
}
