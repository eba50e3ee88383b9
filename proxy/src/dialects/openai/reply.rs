use fulgurite_backends::SampledToken;
use serde::Serialize;

use super::reply_shape::{ChoiceContent, Logprobs, Shape};
use super::token_logprobs::TextOffset;
use crate::dialects::json_text::{ObjectText, write_array, write_json};
use crate::error::ProxyError;
use crate::reply::answer_token::AnswerToken;
use crate::reply::assistant_message::Delta;
use crate::reply::call_event::Finished;
use crate::reply::event_text::{DONE, KEEP_ALIVE, write_event};
use crate::reply::reply_writer::{ReplyContext, ReplyWriter, WholeChoice};
use crate::requests::model_request::ReplyFormat;

/// How Chat Completions and Completions write answers.
#[derive(Debug, PartialEq)]
pub(crate) struct OpenAiReply {
    pub(crate) shape: Shape,
    /// Whether a stream ends with a chunk that counts tokens.
    pub(crate) include_usage: bool,
}

impl ReplyFormat for OpenAiReply {
    fn writer(self: Box<Self>, context: ReplyContext) -> Box<dyn ReplyWriter> {
        let choices = (0..context.choices).map(|_| ChoiceState::default()).collect();
        Box::new(OpenAiWriter { format: *self, context, choices })
    }
}

struct OpenAiWriter {
    format: OpenAiReply,
    context: ReplyContext,
    choices: Vec<ChoiceState>,
}

/// How far an answer has been written.
#[derive(Default)]
struct ChoiceState {
    /// Tokens of a stream of which nothing has left yet.
    waiting: Vec<SampledToken>,
    /// Characters in the tokens that have been carried.
    text_offset: TextOffset,
    /// Tokens since something left last, and those of all reasoning.
    silent: usize,
    reasoning_tokens: usize,
    /// Set at the end.
    counted: Option<Counted>,
}

impl ChoiceState {
    /// Tokens have come, and what they made certain leaves.
    fn count_reasoning(&mut self, tokens: usize, deltas: &[Delta]) {
        self.silent += tokens;
        for delta in deltas {
            let silent_tokens = std::mem::take(&mut self.silent);
            if matches!(delta, Delta::Reasoning(_)) {
                self.reasoning_tokens += silent_tokens;
            }
        }
    }
}

/// What OpenAI names its servers' configuration by; the weights that sampled are recorded with each token.
const FINGERPRINT: &str = concat!("fulgurite-", env!("CARGO_PKG_VERSION"));

/// A response or one of its chunks.
struct Reply<'r> {
    id: &'r str,
    object: &'static str,
    created: u64,
    model: &'r str,
    choices: Vec<Choice<'r>>,
    /// Null in chunks before the last of a stream that ends with it.
    usage: Option<Option<Usage>>,
    /// Where vLLM has the prompt of a chat; of a completion it is in each choice.
    prompt_token_ids: Option<&'r [u32]>,
}

struct Choice<'c> {
    content: ChoiceContent<'c>,
    index: usize,
    logprobs: Option<Logprobs<'c>>,
    finish_reason: Option<&'static str>,
    token_ids: Option<Vec<u32>>,
    /// The stop string that ended the answer, under vLLM's name; where it has ended.
    stop_reason: Option<Option<&'c str>>,
    prompt_token_ids: Option<&'c [u32]>,
}

impl Reply<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let mut reply = ObjectText::new(out);
        reply.field("id", self.id);
        reply.field("object", self.object);
        reply.field("created", &self.created);
        reply.field("model", self.model);
        reply.field("system_fingerprint", FINGERPRINT);
        write_array(reply.named("choices"), &self.choices, Choice::write);
        if let Some(usage) = &self.usage {
            reply.field("usage", usage);
        }
        if let Some(prompt) = self.prompt_token_ids {
            reply.field("prompt_token_ids", prompt);
        }
        reply.end();
    }

    /// Writes it as an event of a stream.
    fn write_event(&self, out: &mut Vec<u8>) {
        write_event(out, |out| self.write(out));
    }
}

impl Choice<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let mut choice = ObjectText::new(out);
        self.content.add_to(&mut choice);
        choice.field("index", &self.index);
        match &self.logprobs {
            Some(logprobs) => logprobs.write(choice.named("logprobs")),
            None => choice.field("logprobs", &()),
        }
        choice.field("finish_reason", &self.finish_reason);
        if let Some(token_ids) = &self.token_ids {
            choice.field("token_ids", token_ids);
        }
        if let Some(stop_reason) = &self.stop_reason {
            choice.field("stop_reason", stop_reason);
        }
        if let Some(prompt) = self.prompt_token_ids {
            choice.field("prompt_token_ids", prompt);
        }
        choice.end();
    }
}

/// Tokens of one answer and its prompt.
struct Counted {
    prompt_tokens: usize,
    sampled_tokens: usize,
    cached_tokens: Option<usize>,
}

/// Tokens as the sampler counted them: the prompt once, and all that was sampled.
#[derive(Serialize)]
struct Usage {
    prompt_tokens: usize,
    completion_tokens: usize,
    total_tokens: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<PromptTokensDetails>,
    /// Of a chat.
    #[serde(skip_serializing_if = "Option::is_none")]
    completion_tokens_details: Option<CompletionTokensDetails>,
}

#[derive(Serialize)]
struct CompletionTokensDetails {
    reasoning_tokens: usize,
}

#[derive(Serialize)]
struct PromptTokensDetails {
    cached_tokens: usize,
}

impl OpenAiReply {
    /// An answer's content, with its tokens and, if it has ended, its finish reason.
    fn choice<'c>(
        &self,
        context: &'c ReplyContext,
        content: ChoiceContent<'c>,
        index: usize,
        tokens: &[&'c SampledToken],
        finished: Option<&'c Finished>,
        text_offset: &mut TextOffset,
    ) -> Choice<'c> {
        let has_logprobs = context.logprobs && !(tokens.is_empty() && finished.is_none());
        Choice {
            content,
            index,
            logprobs: has_logprobs.then(|| self.shape.logprobs(tokens, &context.tokenizer, text_offset)),
            finish_reason: finished.map(|finished| finished.reason.as_str()),
            token_ids: context.token_ids.then(|| tokens.iter().map(|token| token.id).collect()),
            stop_reason: finished.map(|finished| finished.stop_string.as_deref()),
            prompt_token_ids: None,
        }
    }

    /// A response, or a chunk of one, which contains the prompt's tokens if there are any.
    fn reply<'r>(
        &self,
        context: &'r ReplyContext,
        object: &'static str,
        mut choices: Vec<Choice<'r>>,
        prompt: Option<&'r [u32]>,
    ) -> Reply<'r> {
        if self.shape == Shape::Text {
            choices.iter_mut().for_each(|choice| choice.prompt_token_ids = prompt);
        }
        let ReplyContext { id, created, model, .. } = context;
        let prompt_token_ids = prompt.filter(|_| self.shape == Shape::Chat);
        Reply { id, object, created: *created, model, choices, usage: None, prompt_token_ids }
    }

    fn write_chunk<'c>(
        &self,
        context: &'c ReplyContext,
        choice: Choice<'c>,
        prompt: Option<&'c [u32]>,
        out: &mut Vec<u8>,
    ) {
        let mut chunk = self.reply(context, self.shape.chunk_object(), vec![choice], prompt);
        chunk.usage = self.include_usage.then_some(None);
        chunk.write_event(out);
    }
}

impl OpenAiWriter {
    /// Whether a token is part of the reply. Token ids are all that was sampled, and logprobs beside them match them one to
    /// one; alone, they are of the text only.
    fn carries(&self, sampled: &AnswerToken) -> bool {
        sampled.is_text || self.context.token_ids
    }

    /// The prompt's tokens, if the reply contains them.
    fn prompt(&self) -> Option<&[u32]> {
        self.context.token_ids.then_some(&*self.context.prompt)
    }

    /// Writes a chunk with the tokens that wait for one.
    fn write_choice(
        &mut self,
        index: usize,
        content: ChoiceContent<'_>,
        finished: Option<&Finished>,
        out: &mut Vec<u8>,
    ) {
        let Self { format, context, choices } = self;
        let ChoiceState { waiting, text_offset, .. } = &mut choices[index];
        let tokens: Vec<&SampledToken> = waiting.iter().collect();
        let choice = format.choice(context, content, index, &tokens, finished, text_offset);
        format.write_chunk(context, choice, None, out);
        waiting.clear();
    }

    fn write_deltas(&mut self, index: usize, deltas: &[Delta], out: &mut Vec<u8>) {
        for delta in deltas {
            self.write_choice(index, self.format.shape.delta(delta), None, out);
        }
    }

    fn count(&mut self, index: usize, finished: &Finished) {
        let Finished { prompt_tokens, sampled_tokens, cached_tokens, .. } = *finished;
        self.choices[index].counted = Some(Counted { prompt_tokens, sampled_tokens, cached_tokens });
    }

    fn usage(&self) -> Usage {
        let counted = || self.choices.iter().filter_map(|choice| choice.counted.as_ref());
        let first = counted().next();
        let prompt_tokens = first.map_or(0, |counted| counted.prompt_tokens);
        let completion_tokens = counted().map(|counted| counted.sampled_tokens).sum();
        let reasoning_tokens = self.choices.iter().map(|choice| choice.reasoning_tokens).sum();
        let is_chat = self.format.shape == Shape::Chat;
        // What answers after the first found cached, the first may have computed.
        let cached_tokens = first.and_then(|counted| counted.cached_tokens);
        Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens: prompt_tokens + completion_tokens,
            prompt_tokens_details: cached_tokens.map(|cached_tokens| PromptTokensDetails { cached_tokens }),
            completion_tokens_details: is_chat.then_some(CompletionTokensDetails { reasoning_tokens }),
        }
    }
}

/// What a whole reply takes, about: beside its tokens, for a token with its logprob, and for a token's id alone.
const BYTES: usize = 1024;
const BYTES_PER_TOKEN: usize = 128;
const BYTES_PER_ID: usize = 8;

impl ReplyWriter for OpenAiWriter {
    fn whole(&mut self, answers: &[WholeChoice], out: &mut Vec<u8>) {
        for (index, answer) in answers.iter().enumerate() {
            self.count(index, &answer.finished);
            answer.tokens().for_each(|sampled| self.choices[index].count_reasoning(1, &sampled.deltas));
            self.choices[index].count_reasoning(0, &answer.finished.held_back);
        }
        let sampled_tokens: usize = answers.iter().map(|answer| answer.finished.sampled_tokens).sum();
        let prompt_tokens = self.prompt().map_or(0, <[u32]>::len);
        out.reserve(BYTES + BYTES_PER_TOKEN * sampled_tokens + BYTES_PER_ID * prompt_tokens);
        let mut choices = Vec::with_capacity(answers.len());
        for (index, answer) in answers.iter().enumerate() {
            let content = self.format.shape.whole(&answer.finished.message);
            let carried = answer.tokens().filter(|sampled| self.carries(sampled));
            let tokens: Vec<&SampledToken> = carried.map(|sampled| &sampled.token).collect();
            choices.push(self.format.choice(
                &self.context,
                content,
                index,
                &tokens,
                Some(&answer.finished),
                &mut TextOffset::default(),
            ));
        }
        let mut reply = self.format.reply(&self.context, self.format.shape.object(), choices, self.prompt());
        reply.usage = Some(Some(self.usage()));
        reply.write(out);
    }

    /// The first chunk of each choice marks the start of its answer.
    fn begin(&mut self, out: &mut Vec<u8>) {
        for index in 0..self.context.choices {
            let content = self.format.shape.beginning();
            let choice = Choice {
                content,
                index,
                logprobs: None,
                finish_reason: None,
                token_ids: None,
                stop_reason: None,
                prompt_token_ids: None,
            };
            self.format.write_chunk(&self.context, choice, self.prompt(), out);
        }
    }

    fn token(&mut self, choice: usize, sampled: &AnswerToken, out: &mut Vec<u8>) {
        if self.carries(sampled) {
            self.choices[choice].waiting.push(sampled.token.clone());
        }
        self.choices[choice].count_reasoning(1, &sampled.deltas);
        self.write_deltas(choice, &sampled.deltas, out);
    }

    fn finish(&mut self, choice: usize, finished: &Finished, out: &mut Vec<u8>) {
        self.choices[choice].count_reasoning(0, &finished.held_back);
        self.write_deltas(choice, &finished.held_back, out);
        self.count(choice, finished);
        self.write_choice(choice, self.format.shape.end(), Some(finished), out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.format.include_usage {
            let mut chunk = self.format.reply(&self.context, self.format.shape.chunk_object(), Vec::new(), None);
            chunk.usage = Some(Some(self.usage()));
            chunk.write_event(out);
        }
        out.extend_from_slice(DONE);
    }

    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>) {
        write_event(out, |out| write_json(out, &super::error::body(error)));
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(KEEP_ALIVE);
    }
}
