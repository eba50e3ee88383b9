use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use fulgurite_types::Message;
use serde_json::Value;

use crate::error::RenderError;
use crate::formats::chunk::{Chunk, ContentEncoding};
use crate::formats::format::{Conversation, Format};
use crate::formats::format_options::FormatOptions;
use crate::formats::open_format::open_format;
use crate::python::python_time::midnight;
use crate::renderer::RendererIdentity;
use crate::tokenizer::fingerprint::hex_sha256;
use crate::tokenizer::model_tokenizer::Tokenizer;
use crate::tools::tool_declarations::read_tools;

/// A format and its tokenizer: conversations to tokens. Every chunk of the format is encoded apart, so that the tokens
/// of a message do not depend on its neighbours.
#[derive(Debug)]
pub(crate) struct PromptWriter {
    pub(crate) identity: RendererIdentity,
    pub(crate) format: Box<dyn Format>,
    pub(crate) stop_tokens: Vec<u32>,
    pub(crate) options: FormatOptions,
}

impl PromptWriter {
    /// The writer of a name; a name may end in `#strip=False`, which keeps reasoning in the history.
    pub(crate) fn open(name: &str, tokenizer: Arc<Tokenizer>, options: FormatOptions) -> Result<Self, RenderError> {
        if let Some(date) = options.current_date.as_ref().filter(|date| midnight(date).is_none()) {
            return Err(RenderError::Date { date: date.clone() });
        }
        let format = open_format(name, &tokenizer, &options)?;
        let stop_token = |text: &&str| {
            let missing = || RenderError::MissingToken { renderer: name.to_owned(), token: (*text).to_owned() };
            tokenizer.token_to_id(text).ok_or_else(missing)
        };
        let settings = options.fingerprint();
        let fingerprint = hex_sha256(&[name.as_bytes(), settings.as_bytes(), tokenizer.fingerprint().as_bytes()]);
        Ok(Self {
            stop_tokens: format.stop_tokens().iter().map(stop_token).collect::<Result<_, _>>()?,
            identity: RendererIdentity { name: name.to_owned(), fingerprint, tokenizer },
            format,
            options,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.identity.name
    }

    pub(crate) fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.identity.tokenizer
    }

    pub(crate) fn encode(&self, chunk: &Chunk<'_>) -> Result<Vec<u32>, RenderError> {
        let encoding = match self.options.cookbook_exact {
            true => self.format.cookbook_content_encoding(),
            false => ContentEncoding::Ordinary,
        };
        chunk.encode(self.tokenizer(), encoding)
    }

    /// The messages that are written: those that declare the tools in place of the system message, the conversation's,
    /// and what the format adds.
    pub(crate) fn written<'m>(
        &self,
        messages: &'m [Message],
        tools: &[Value],
    ) -> Result<Vec<Cow<'m, Message>>, RenderError> {
        let mut written: Vec<Cow<'m, Message>> = messages.iter().map(|message| self.with_known_role(message)).collect();
        if !tools.is_empty() {
            let has_system = written.first().is_some_and(|first| first.role == "system");
            let system = if has_system { written.remove(0).plain_text(0)? } else { String::new() };
            let declared = self.format.declare_tools(&read_tools(tools)?, &system)?;
            written.splice(0..0, declared.into_iter().map(Cow::Owned));
        }
        Ok(self.format.complete(written, !tools.is_empty()))
    }

    /// OpenAI's newer name for the system is `developer`; formats know the older one. The cookbook does not know that.
    fn with_known_role<'m>(&self, message: &'m Message) -> Cow<'m, Message> {
        match message.role.as_str() {
            "developer" if !self.options.cookbook_exact => {
                Cow::Owned(Message { role: "system".to_owned(), ..message.clone() })
            }
            _ => Cow::Borrowed(message),
        }
    }

    /// Tokens of some messages of a conversation, with those of the beginning where the first is one of them.
    fn message_tokens(&self, conversation: &Conversation<'_>, range: Range<usize>) -> Result<Vec<u32>, RenderError> {
        let mut tokens = if range.start == 0 { self.encode(&self.format.beginning())? } else { Vec::new() };
        for index in range {
            let rendered = self.format.message(conversation, index)?;
            for chunk in std::iter::once(&rendered.header).chain(&rendered.output) {
                tokens.extend(self.encode(chunk)?);
            }
        }
        Ok(tokens)
    }

    /// Tokens of the messages from `index` on, then of the generation prompt.
    pub(crate) fn tokens_from(&self, conversation: &Conversation<'_>, index: usize) -> Result<Vec<u32>, RenderError> {
        let mut tokens = self.message_tokens(conversation, index..conversation.messages().len())?;
        tokens.extend(self.generation_prompt(conversation)?);
        Ok(tokens)
    }

    pub(crate) fn generation_prompt(&self, conversation: &Conversation<'_>) -> Result<Vec<u32>, RenderError> {
        let mut tokens = Vec::new();
        for chunk in self.format.generation_prompt(conversation)? {
            tokens.extend(self.encode(&chunk)?);
        }
        Ok(tokens)
    }

    /// The tokens of a prompt for the next assistant message.
    pub(crate) fn prompt_tokens(&self, messages: &[Message], tools: &[Value]) -> Result<Vec<u32>, RenderError> {
        let written = self.written(messages, tools)?;
        let tokens = Conversation::read(&written).and_then(|conversation| {
            let conversation = conversation.with_tools(tools)?;
            self.tokens_from(&conversation, 0)
        });
        tokens.map_err(|error| error.of_given_message(written.len(), messages.len()))
    }
}
