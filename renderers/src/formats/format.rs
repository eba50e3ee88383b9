use std::borrow::Cow;
use std::fmt::Debug;

use fulgurite_types::{Message, Tool};
use serde_json::Value;

use crate::chat_message::ChatMessage;
use crate::formats::chunk::{Chunk, ContentEncoding};
use crate::tools::tool_declarations::read_tools;
use crate::{RenderError, ResponseFormat};

/// How one model family writes a conversation. Formats know text alone; [`NamedRenderer`](crate::NamedRenderer) makes
/// tokens of it.
pub(crate) trait Format: Debug + Send + Sync + 'static {
    /// What stands before the first message.
    fn beginning(&self) -> Chunk<'static> {
        Chunk::default()
    }

    /// One message of a conversation.
    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError>;

    /// The generation prompt: chunks that are encoded apart. What the model is made to begin with
    /// (`<think>\n`) belongs to it.
    fn generation_prompt(&self, conversation: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError>;

    /// Texts of the control tokens with which the model ends its turn.
    fn stop_tokens(&self) -> &'static [&'static str];

    /// A text that ends the turn where no token does.
    fn stop_string(&self) -> Option<&'static str> {
        None
    }

    /// The control token with which the turn before the message at `index` ends and which is that message's role too, so
    /// that the turn writes it and the message does not. None where the two share nothing.
    fn shared_turn_end(&self, _conversation: &Conversation<'_>, _index: usize) -> Option<&'static str> {
        None
    }

    /// What a turn lacks that was cut off before its end.
    fn end_of_turn(&self) -> Chunk<'static>;

    /// The messages that stand in for `system` once `tools` are declared. `system` is the text of the conversation's
    /// first system message, empty where there is none. A message's text is never a control token: a format that
    /// explains tools by its control tokens writes them in `message`, from `Conversation::tools`; its `system` stays as it
    /// is, and nothing else is needed.
    fn declare_tools(&self, _tools: &[Tool<'_>], system: &str) -> Result<Vec<Message>, RenderError> {
        Ok(vec![Message::text("system", system)])
    }

    /// The conversation, tools declared, with what the format adds by itself: a default system message, a wish
    /// for short reasoning. Messages may be changed, results of tools in a row put in another order, and before the first
    /// message of the assistant messages put in or taken out.
    /// `_declares_tools`: whether there are tools.
    fn complete<'m>(&self, messages: Vec<Cow<'m, Message>>, _declares_tools: bool) -> Vec<Cow<'m, Message>> {
        messages
    }

    /// How what the model says is read.
    fn response_format(&self) -> ResponseFormat;

    /// What the cookbook does with control tokens that a message spells. Ours are text everywhere.
    fn cookbook_content_encoding(&self) -> ContentEncoding {
        ContentEncoding::ControlTokens
    }

    /// Whether the prompt tells the model not to reason, so that a turn that reasons cannot be trained.
    fn disables_thinking(&self) -> bool {
        false
    }

    /// How the cookbook cuts a conversation into sequences to train on. Ours decides by the tokens.
    fn cookbook_split(&self) -> CookbookSplit;

    /// Whether the cookbook holds that a message of the system behind the first ends the assistant's turn, as the user's
    /// do.
    fn cookbook_system_ends_turn(&self) -> bool {
        false
    }
}

/// Into how many sequences tinker-cookbook cuts a conversation that it trains on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookbookSplit {
    /// One: it holds that every prompt extends the turns before it.
    Whole,
    /// One for each trained assistant message, which is its last.
    ByMessage,
    /// One for each message of a user with all that answers it.
    ByUserTurn,
}

/// One message as chunks: what the model is given, then what it would have sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RenderedMessage<'m> {
    /// What stands before the content: the role.
    pub(crate) header: Chunk<'m>,
    /// The content and its end.
    pub(crate) output: Vec<Chunk<'m>>,
    /// What ends the turn only where it is the last, because the next message begins with it.
    pub(crate) stop_overlap: Chunk<'m>,
}

/// The messages that a format writes, and what it must know of the whole to write one.
#[derive(Debug)]
pub(crate) struct Conversation<'m> {
    messages: Vec<ChatMessage<'m>>,
    /// The last message whose role is `user`.
    last_user: Option<usize>,
    /// The last message whose role is `assistant` and that calls no tool.
    last_answer: Option<usize>,
    /// Whether the last message was just sampled and is not history.
    ends_sampled: bool,
    /// The tools that are declared.
    tools: Vec<Tool<'m>>,
}

impl<'m> Conversation<'m> {
    /// Reads the messages of a prompt: all of them are history.
    pub(crate) fn read(messages: &'m [Cow<'_, Message>]) -> Result<Self, RenderError> {
        Self::new(messages, false)
    }

    /// Reads a conversation whose last message was just sampled.
    pub(crate) fn read_sampled(messages: &'m [Cow<'_, Message>]) -> Result<Self, RenderError> {
        Self::new(messages, true)
    }

    fn new(messages: &'m [Cow<'_, Message>], ends_sampled: bool) -> Result<Self, RenderError> {
        let messages = messages.iter().enumerate().map(|(index, message)| ChatMessage::read(message, index));
        let messages: Vec<ChatMessage<'m>> = messages.collect::<Result<_, _>>()?;
        let history = &messages[..messages.len() - usize::from(ends_sampled && !messages.is_empty())];
        Ok(Self {
            last_user: messages.iter().rposition(|message| message.role == "user"),
            last_answer: history.iter().rposition(|message| message.is_assistant() && message.tool_calls.is_empty()),
            messages,
            ends_sampled,
            tools: Vec::new(),
        })
    }

    /// The conversation with tools declared.
    pub(crate) fn with_tools(self, tools: &'m [Value]) -> Result<Self, RenderError> {
        Ok(Self { tools: read_tools(tools)?, ..self })
    }

    /// The tools that are declared, which the first message explains where the format has them in a message.
    pub(crate) fn tools(&self) -> &[Tool<'m>] {
        &self.tools
    }

    pub(crate) fn messages(&self) -> &[ChatMessage<'m>] {
        &self.messages
    }

    /// The message at `index`; the index must be one of the conversation's.
    pub(crate) fn at(&self, index: usize) -> &ChatMessage<'m> {
        &self.messages[index]
    }

    /// The message before `index`.
    pub(crate) fn before(&self, index: usize) -> Option<&ChatMessage<'m>> {
        self.messages.get(index.checked_sub(1)?)
    }

    /// The message after `index`.
    pub(crate) fn after(&self, index: usize) -> Option<&ChatMessage<'m>> {
        self.messages.get(index + 1)
    }

    /// Whether no message follows.
    pub(crate) fn is_last(&self, index: usize) -> bool {
        index + 1 == self.messages.len()
    }

    /// Whether this message was just sampled, so that it is written as it was sampled.
    pub(crate) fn is_sampled(&self, index: usize) -> bool {
        self.ends_sampled && self.is_last(index)
    }

    /// Where the last message of role `user` stands; tool results do not count.
    pub(crate) fn last_user(&self) -> Option<usize> {
        self.last_user
    }

    /// Where the last assistant message without tool calls stands; one that was just sampled does not count.
    pub(crate) fn last_answer(&self) -> Option<usize> {
        self.last_answer
    }
}
