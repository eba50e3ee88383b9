use std::sync::Arc;

use fulgurite_types::Message;
use serde_json::{Map, Value};

use crate::answer_grammar::GrammarWriter;
use crate::parsing::TurnEnds;
use crate::supervised::weighted_tokens::WeightedTokens;
use crate::{
    AnswerGrammar, AnswerShape, ParsedMessage, RenderError, ResponseFormat, StreamParser, Tokenizer, TrainOnWhat,
};

/// A conversation as the tokens that a model continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedPrompt {
    /// Token ids; they end with the generation prompt, so that the model goes on as the assistant.
    pub tokens: Vec<u32>,
}

/// New messages after a turn that was sampled.
#[derive(Clone, Copy, Debug)]
pub struct Continuation<'c> {
    /// The whole conversation as the caller gives it now.
    pub messages: &'c [Message],
    /// Index of the first message after the turn that was sampled.
    pub new_from: usize,
    /// The turn's tokens, as sampled.
    pub sampled: &'c [u32],
    /// The tools that the conversation declares; they are not rendered again.
    pub tools: &'c [Value],
}

/// Which renderer it is, of which tokenizer.
#[derive(Clone, Debug)]
pub struct RendererIdentity {
    /// As [`Renderer::name`].
    pub name: String,
    /// As [`Renderer::fingerprint`].
    pub fingerprint: String,
    /// As [`Renderer::tokenizer`].
    pub tokenizer: Arc<Tokenizer>,
}

/// Turns conversations into a model's tokens and its tokens back into messages.
///
/// Two laws hold for every renderer. Control tokens come from the format, never from what a message says. And the
/// tokens that [`render_supervised`](Renderer::render_supervised) trains are exactly those that the model would have
/// to sample after [`render_prompt`](Renderer::render_prompt) of the messages before.
pub trait Renderer: Send + Sync + 'static {
    /// Which one it is.
    fn identity(&self) -> &RendererIdentity;

    /// The format's name, as a config gives it.
    fn name(&self) -> &str {
        &self.identity().name
    }

    /// Hex sha256 that changes whenever the tokens of some conversation may: of the format and of the tokenizer.
    fn fingerprint(&self) -> &str {
        &self.identity().fingerprint
    }

    /// The tokenizer of its token ids.
    fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.identity().tokenizer
    }

    /// Tokens that end the assistant's turn.
    fn stop_tokens(&self) -> &[u32];

    /// A text that ends the assistant's turn, in formats that have no token for it.
    fn stop_string(&self) -> Option<&str> {
        None
    }

    /// How what the model says is read.
    fn response_format(&self) -> ResponseFormat;

    /// Whether a model hears of the tools that a conversation declares. Where it does not, they are left out without an
    /// error, as templates do that were written for no tools.
    fn shows_tools(&self) -> bool {
        true
    }

    /// What may go wrong with conversations that are rendered so, for whoever opens the model.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// This renderer with variables for its template (`chat_template_kwargs`) beside those that it has. Renderers are
    /// worth keeping: making one costs a few small renderings.
    fn with_template_arguments(&self, arguments: &Map<String, Value>) -> Result<Arc<dyn Renderer>, RenderError> {
        let _ = arguments;
        Err(RenderError::ArgumentsUnsupported { renderer: self.name().to_owned() })
    }

    /// This renderer as a caller would like the model to answer, by variables that templates have for it
    /// (`reasoning_effort`, `enable_thinking`): with those of them that the format knows and that are not set already.
    /// `None` where it knows none.
    fn with_preferences(&self, preferences: &Map<String, Value>) -> Option<Arc<dyn Renderer>> {
        let _ = preferences;
        None
    }

    /// The tokens of a prompt for the next assistant message. `tools` are OpenAI tool declarations.
    fn render_prompt(&self, messages: &[Message], tools: &[Value]) -> Result<RenderedPrompt, RenderError>;

    /// The tokens that follow a turn which was sampled after a prompt of the same conversation: what the turn lacks of
    /// its end, the new messages, and the generation prompt. What came before is not rendered
    /// again, and the cost grows with the new messages alone.
    fn render_continuation(&self, continuation: &Continuation<'_>) -> Result<Vec<u32>, RenderError>;

    /// Sequences to train a model on, made of a finished conversation: one, or more where the format does not keep the
    /// conversation append-only. Fails where no message is to be trained.
    fn render_supervised(
        &self,
        messages: &[Message],
        tools: &[Value],
        train_on: &TrainOnWhat,
    ) -> Result<Vec<WeightedTokens>, RenderError>;

    /// A reader of what is sampled after `prompt`, token by token. What the prompt's end opened, such as a `<think>`,
    /// is open. `tools` are the request's; a call may be of others.
    fn stream_parser(&self, prompt: &[u32], tools: &[Value]) -> StreamParser {
        let ends = TurnEnds { tokens: self.stop_tokens(), text: self.stop_string() };
        StreamParser::new(self.tokenizer(), self.response_format(), ends, prompt, tools)
    }

    /// What keeps an answer to a shape that is sampled after `prompt`: reasoning as the format has it, then the JSON or
    /// the calls, which [`stream_parser`](Self::stream_parser) reads back as such. What ends the turn is not part of it,
    /// but for tokens that say what it was. Fails where the format has no way to say this.
    fn answer_grammar(&self, prompt: &[u32], shape: &AnswerShape<'_>) -> Result<AnswerGrammar, RenderError> {
        let writer = GrammarWriter {
            renderer: self.name(),
            tokenizer: self.tokenizer(),
            format: self.response_format(),
            stop_string: self.stop_string(),
        };
        writer.write(prompt, shape)
    }

    /// The message in `sampled`, as [`stream_parser`](Self::stream_parser) reads it.
    fn parse(&self, prompt: &[u32], sampled: &[u32], tools: &[Value]) -> ParsedMessage {
        let mut parser = self.stream_parser(prompt, tools);
        parser.feed(sampled);
        parser.finish().1
    }
}
