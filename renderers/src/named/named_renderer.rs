use std::sync::Arc;

use fulgurite_types::Message;
use serde_json::Value;

use crate::formats::format_options::FormatOptions;
use crate::named::cookbook_supervised::{cookbook_example, cookbook_examples};
use crate::named::prompt_writer::PromptWriter;
use crate::{
    Continuation, RenderError, RenderedPrompt, Renderer, RendererIdentity, ResponseFormat, Tokenizer, TrainOnWhat,
    WeightedTokens,
};

/// Renders by a format that is written by hand and has a name, such as `qwen3_5` or `gpt_oss_low_reasoning`.
///
/// Every chunk of the format is encoded apart, so that the tokens of a message do not depend on its neighbours.
#[derive(Debug)]
pub struct NamedRenderer {
    writer: PromptWriter,
}

impl NamedRenderer {
    /// The renderer of a name; a name may end in `#strip=False`, which keeps reasoning in the history.
    pub fn open(name: &str, tokenizer: Arc<Tokenizer>, options: FormatOptions) -> Result<Self, RenderError> {
        Ok(Self { writer: PromptWriter::open(name, tokenizer, options)? })
    }

    /// The whole conversation as one sequence, as tinker-cookbook's `build_supervised_example` makes it: in a format that
    /// rewrites earlier turns, these are trained in a context in which they are never sampled.
    /// [`render_supervised`](Renderer::render_supervised) cuts the conversation there instead.
    pub fn cookbook_example(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<WeightedTokens, RenderError> {
        let written = self.writer.written(messages, tools)?.len();
        let example = cookbook_example(&self.writer, messages, tools, train_on);
        example.map_err(|error| error.of_given_message(written, messages.len()))
    }
}

impl Renderer for NamedRenderer {
    fn identity(&self) -> &RendererIdentity {
        &self.writer.identity
    }

    fn stop_tokens(&self) -> &[u32] {
        &self.writer.stop_tokens
    }

    fn stop_string(&self) -> Option<&str> {
        self.writer.format.stop_string()
    }

    fn response_format(&self) -> ResponseFormat {
        self.writer.format.response_format()
    }

    fn render_prompt(&self, messages: &[Message], tools: &[Value]) -> Result<RenderedPrompt, RenderError> {
        Ok(RenderedPrompt { tokens: self.writer.prompt_tokens(messages, tools)? })
    }

    fn render_continuation(&self, continuation: &Continuation<'_>) -> Result<Vec<u32>, RenderError> {
        self.writer.continuation(continuation)
    }

    fn render_supervised(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<Vec<WeightedTokens>, RenderError> {
        let written = self.writer.written(messages, tools)?.len();
        let examples = match self.writer.options.cookbook_exact {
            true => cookbook_examples(&self.writer, messages, tools, train_on),
            false => self.writer.examples(messages, tools, train_on),
        };
        examples.map_err(|error| error.of_given_message(written, messages.len()))
    }
}
