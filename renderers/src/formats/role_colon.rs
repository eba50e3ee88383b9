use fulgurite_types::{Message, Tool};

use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::plain_text::PlainText;
use crate::{RenderError, ResponseFormat, Tokenizer};

const NAME: &str = "role_colon";

/// For base models, which know no control tokens: `User: {content}\n\n` and so on, the turn ended by `\n\nUser:`.
#[derive(Debug)]
pub(crate) struct RoleColon {
    beginning: Chunk<'static>,
    cookbook_exact: bool,
}

impl RoleColon {
    pub(crate) fn new(tokenizer: &Tokenizer, cookbook_exact: bool) -> Self {
        let beginning = tokenizer.bos_token().map(|token| Chunk::of_format(token.to_owned())).unwrap_or_default();
        Self { beginning, cookbook_exact }
    }
}

impl Format for RoleColon {
    fn beginning(&self) -> Chunk<'static> {
        self.beginning.clone()
    }

    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let text = PlainText { format: NAME, cookbook_exact: self.cookbook_exact }.of(message, index)?;
        Ok(RenderedMessage {
            header: Chunk::default().content(capitalized(message.role)).format(":"),
            output: vec![Chunk::of_format(" ").content(text).format("\n\n")],
            stop_overlap: Chunk::of_format(if message.is_assistant() { "User:" } else { "<UNUSED>" }),
        })
    }

    fn generation_prompt(&self, _: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        Ok(vec![Chunk::of_format("Assistant:")])
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        &[]
    }

    fn stop_string(&self) -> Option<&'static str> {
        Some("\n\nUser:")
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format("\n\n")
    }

    fn declare_tools(&self, _: &[Tool<'_>], _: &str) -> Result<Vec<Message>, RenderError> {
        Err(RenderError::ToolsUnsupported { renderer: NAME.to_owned() })
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::RoleColon
    }

    fn cookbook_split(&self) -> CookbookSplit {
        CookbookSplit::Whole
    }
}

/// The first letter in upper case and the others in lower case.
fn capitalized(role: &str) -> String {
    let mut letters = role.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters.flat_map(char::to_lowercase)).collect()
}
