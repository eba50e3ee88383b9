use fulgurite_backends::SampledToken;
use fulgurite_renderers::{ParseEvent, StreamDecoder, StreamParser};
use fulgurite_types::{Message, WeightsVersion};

use crate::call::model_call::{ModelCall, Reading};
use crate::reply::answer_token::{AnswerToken, Deltas};
use crate::reply::assistant_message::{AssistantMessage, Delta, ToolCallIds};
use crate::reply::finish_reason::FinishReason;
use crate::reply::numbered_calls::CallNumbers;
use crate::requests::model_request::CallIds;

/// What has been sampled so far, and the message that it makes.
pub(crate) struct SampledAnswer {
    stop_tokens: Vec<u32>,
    tokens: Vec<SampledToken>,
    reader: Reader,
    message: AssistantMessage,
    single_call: bool,
    /// How many of the tokens an earlier request's sampling gave.
    earlier_tokens: usize,
    /// Where the sampling begins that goes on now.
    resumed_at: usize,
    cached_tokens: Option<usize>,
}

/// An answer that has ended.
pub(crate) struct WholeAnswer {
    pub(crate) tokens: Vec<SampledToken>,
    /// How many of them are from an earlier sampling, which this one continued.
    pub(crate) earlier_tokens: usize,
    /// What was held back until the end was known.
    pub(crate) held_back: Vec<Delta>,
    pub(crate) message: Message,
    /// The client's stop string that ends it.
    pub(crate) stop_string: Option<String>,
    /// How many of the prompt's tokens the host had in its cache, if it reports that.
    pub(crate) cached_tokens: Option<usize>,
}

impl SampledAnswer {
    /// An answer of which nothing has been sampled.
    pub(crate) fn new(call: &ModelCall) -> Self {
        let renderer = &call.model.renderer;
        let reader = match &call.reading {
            Reading::Message(conversation) => {
                Reader::Message(Box::new(renderer.stream_parser(&call.prompt, &conversation.tools)))
            }
            Reading::Text => Reader::Text(StreamDecoder::new(renderer.tokenizer().clone())),
        };
        let ids = ToolCallIds {
            seed: call.seed,
            request_digest: call.request_digest.clone(),
            format: renderer.response_format(),
            numbers: match (call.endpoint.call_ids, &call.reading) {
                (CallIds::Numbered, Reading::Message(conversation)) => Some(CallNumbers::of(&conversation.messages)),
                (CallIds::Numbered, Reading::Text) | (CallIds::Seeded, _) => None,
            },
        };
        Self {
            stop_tokens: renderer.stop_tokens().to_vec(),
            tokens: Vec::new(),
            reader,
            message: AssistantMessage::new(call.stop_strings.clone(), ids),
            single_call: call.single_call,
            earlier_tokens: 0,
            resumed_at: 0,
            cached_tokens: None,
        }
    }

    /// What has been sampled.
    pub(crate) fn tokens(&self) -> &[SampledToken] {
        &self.tokens
    }

    /// Takes the next token.
    pub(crate) fn take(&mut self, token: SampledToken) -> AnswerToken {
        self.tokens.push(token.clone());
        let is_text = !self.stop_tokens.contains(&token.id);
        let (message, mut deltas) = (&mut self.message, Deltas::default());
        let mut take = |event| message.take(event).for_each(|delta| deltas.push(delta));
        match &mut self.reader {
            Reader::Message(parser) => parser.events_of(&[token.id]).for_each(take),
            Reader::Text(decoder) if is_text => take(ParseEvent::Text(decoder.feed(token.id))),
            Reader::Text(_) | Reader::Ended => {}
        }
        AnswerToken { token, is_text, deltas }
    }

    /// Takes the tokens of an earlier sampling, which another one continues.
    pub(crate) fn continue_after(&mut self, earlier: impl Iterator<Item = SampledToken>) -> Vec<AnswerToken> {
        let answered = earlier.map(|token| self.take(token)).collect();
        self.earlier_tokens = self.tokens.len();
        self.begin_again();
        answered
    }

    /// Another sampling follows, which continues what there is.
    pub(crate) fn begin_again(&mut self) {
        self.resumed_at = self.tokens.len();
    }

    /// Takes the weights behind the tokens of this sampling so far, from a host that knows them only now.
    pub(crate) fn set_weights_versions(&mut self, versions: Vec<Option<WeightsVersion>>) {
        for (token, version) in self.tokens.iter_mut().skip(self.resumed_at).zip(versions) {
            token.weights_version = version;
        }
    }

    /// Takes how many tokens the host had in its cache.
    pub(crate) fn set_cached_tokens(&mut self, cached_tokens: usize) {
        self.cached_tokens = Some(cached_tokens);
    }

    /// Whether sampling is to stop, which the sampler cannot know: at the client's stop string, after the only call that it
    /// allows, or at the format's own end of a turn that is no stop token.
    pub(crate) fn has_ended(&self) -> bool {
        let last_is_text = self.tokens.last().is_some_and(|token| !self.stop_tokens.contains(&token.id));
        let has_called = self.single_call && self.message.has_called();
        self.message.has_stopped() || (last_is_text && (has_called || self.reader.has_ended()))
    }

    /// Ends the answer.
    pub(crate) fn finish(mut self) -> WholeAnswer {
        let events = std::mem::replace(&mut self.reader, Reader::Ended).finish();
        let mut held_back: Vec<Delta> = events.into_iter().flat_map(|event| self.message.take(event)).collect();
        held_back.extend(self.message.finish());
        WholeAnswer {
            tokens: self.tokens,
            earlier_tokens: self.earlier_tokens,
            held_back,
            cached_tokens: self.cached_tokens,
            stop_string: self.message.stop_string().map(str::to_owned),
            message: self.message.into_message(),
        }
    }
}

/// Turns tokens into text.
enum Reader {
    /// By the model's format.
    Message(Box<StreamParser>),
    /// As text and nothing else.
    Text(StreamDecoder),
    /// There is no more to read.
    Ended,
}

impl Reader {
    fn has_ended(&self) -> bool {
        matches!(self, Reader::Message(parser) if parser.has_ended())
    }

    fn finish(self) -> Vec<ParseEvent> {
        match self {
            Reader::Message(parser) => parser.finish().0,
            Reader::Text(mut decoder) => vec![ParseEvent::Text(decoder.finish())],
            Reader::Ended => Vec::new(),
        }
    }
}

/// Why there is no more to sample of an answer that was broken off: its client had gone just then, or nothing is left
/// of its attempt's budget.
pub(crate) fn ended_before(call: &ModelCall, answer: &SampledAnswer) -> Option<FinishReason> {
    let at_stop_token = answer.tokens().last().is_some_and(|last| call.model.renderer.stop_tokens().contains(&last.id));
    if at_stop_token || answer.has_ended() {
        return Some(FinishReason::Stop);
    }
    (answer.tokens().len() >= call.max_tokens).then_some(FinishReason::Length)
}
