use fulgurite_types::{Message, Tool};

use crate::formats::chunk::Chunk;
use crate::formats::format::{Conversation, CookbookSplit, Format, RenderedMessage};
use crate::formats::plain_text::PlainText;
use crate::formats::python_strip::trimmed_cow;
use crate::{RenderError, ResponseFormat};

const NAME: &str = "llama3";

/// Llama 3: `<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>` for each message. No tools.
#[derive(Debug)]
pub(crate) struct Llama3 {
    /// Write what tinker-cookbook writes, not what the model's chat template does.
    pub(crate) cookbook_exact: bool,
}

fn header(role: &str) -> Chunk<'_> {
    Chunk::of_format("<|start_header_id|>").content(role).format("<|end_header_id|>\n\n")
}

impl Format for Llama3 {
    fn beginning(&self) -> Chunk<'static> {
        Chunk::of_format("<|begin_of_text|>")
    }

    fn message<'m>(&self, conversation: &Conversation<'m>, index: usize) -> Result<RenderedMessage<'m>, RenderError> {
        let message = conversation.at(index);
        let text = PlainText { format: NAME, cookbook_exact: self.cookbook_exact }.of(message, index)?;
        // The chat template trims what everybody says; the cookbook does not.
        let text = if self.cookbook_exact { text } else { trimmed_cow(text) };
        let output = Chunk::default().content(text).format("<|eot_id|>");
        Ok(RenderedMessage { header: header(message.role), output: vec![output], ..RenderedMessage::default() })
    }

    fn generation_prompt(&self, _: &Conversation<'_>) -> Result<Vec<Chunk<'static>>, RenderError> {
        Ok(vec![header("assistant")])
    }

    fn stop_tokens(&self) -> &'static [&'static str] {
        &["<|eot_id|>"]
    }

    fn end_of_turn(&self) -> Chunk<'static> {
        Chunk::of_format("<|eot_id|>")
    }

    fn declare_tools(&self, _: &[Tool<'_>], _: &str) -> Result<Vec<Message>, RenderError> {
        Err(RenderError::ToolsUnsupported { renderer: NAME.to_owned() })
    }

    fn response_format(&self) -> ResponseFormat {
        ResponseFormat::Text
    }

    fn cookbook_split(&self) -> CookbookSplit {
        CookbookSplit::Whole
    }
}
