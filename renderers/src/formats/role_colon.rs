use crate::chunk::Chunk;
use crate::format::{Conversation, CookbookSplit, Format, RenderedMessage, ToolDeclaration};
use crate::{Message, RenderError, ResponseFormat, Tokenizer};

const NAME: &str = "role_colon";

/// For base models, which know no control tokens: `User: {content}\n\n` and so on, the turn ended by `\n\nUser:`.
#[derive(Debug)]
pub(super) struct RoleColon {
    beginning: Chunk<'static>,
}

impl RoleColon {
    pub(super) fn new(tokenizer: &Tokenizer) -> Self {
        Self { beginning: tokenizer.bos_token().map(Chunk::of_format).unwrap_or_default() }
    }
}

impl Format for RoleColon {
    fn beginning(&self) -> Chunk<'static> {
        self.beginning.clone()
    }

    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        Ok(RenderedMessage {
            header: Chunk::default().content(capitalized(message.role)).format(":"),
            output: vec![Chunk::of_format(" ").content(message.visible_text()).format("\n\n")],
            stop_overlap: Chunk::of_format("User:"),
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

    fn declare_tools(&self, _: &[ToolDeclaration<'_>], _: &str) -> Result<Vec<Message>, RenderError> {
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
