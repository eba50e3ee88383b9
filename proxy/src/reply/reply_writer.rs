use std::sync::Arc;

use fulgurite_renderers::Tokenizer;

use crate::error::ProxyError;
use crate::reply::answer_token::AnswerToken;
use crate::reply::call_event::Finished;

/// What every response contains, in any dialect.
pub(crate) struct ReplyContext {
    pub(crate) id: String,
    /// Seconds since the epoch.
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) prompt: Arc<[u32]>,
    pub(crate) logprobs: bool,
    /// Whether the client is to have token ids, the prompt's and those of what was sampled.
    pub(crate) token_ids: bool,
    /// How many answers there will be.
    pub(crate) choices: usize,
}

/// One answer from its first token to its end.
pub(crate) struct WholeChoice {
    /// As they came together.
    pub(crate) tokens: Vec<Arc<[AnswerToken]>>,
    pub(crate) finished: Arc<Finished>,
}

impl WholeChoice {
    /// All that was sampled.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &AnswerToken> {
        self.tokens.iter().flat_map(|tokens| &**tokens)
    }
}

/// Writes one response in some dialect: whole, or as the events of a stream. Of a stream, `begin` comes first, then the
/// answers' events while they are sampled, and `end` once all of them have finished; or `fail`, and nothing after it.
pub(crate) trait ReplyWriter: Send {
    /// Why the answers are refused where they would be written whole, if they are.
    fn refused(&self, _choices: &[WholeChoice]) -> Option<ProxyError> {
        None
    }

    /// The whole response, of all answers.
    fn whole(&mut self, choices: &[WholeChoice], out: &mut Vec<u8>);

    /// Writes the start of an answer.
    fn begin(&mut self, out: &mut Vec<u8>);

    /// Says what a token made certain.
    fn token(&mut self, choice: usize, sampled: &AnswerToken, out: &mut Vec<u8>);

    /// Says what had been held back, and how an answer ended.
    fn finish(&mut self, choice: usize, finished: &Finished, out: &mut Vec<u8>);

    /// Ends the stream.
    fn end(&mut self, out: &mut Vec<u8>);

    /// Breaks the stream off.
    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>);

    /// Writes a keep-alive while there is nothing else to send.
    fn keep_alive(&mut self, out: &mut Vec<u8>);
}
