use std::sync::Arc;

use fulgurite_backends::SampledToken;
use serde_json::{Value, json};

use super::shape::Shape;
use crate::answer::Taken;
use crate::call::Finished;
use crate::error::ProxyError;
use crate::model_request::ReplyFormat;
use crate::reply_message::Delta;
use crate::reply_writer::{ReplyContext, ReplyWriter, WholeChoice};

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
    /// Tokens that nothing has carried yet: of a stream, those of which nothing has left yet.
    waiting: Vec<SampledToken>,
    /// Characters in the tokens that have been carried.
    text_offset: usize,
    /// Set at the end.
    usage: Option<Usage>,
}

/// Tokens as the sampler counted them.
#[derive(Clone, Copy)]
struct Usage {
    prompt_tokens: usize,
    sampled_tokens: usize,
}

impl OpenAiWriter {
    /// Keeps a token for the next choice. Token ids are all that was sampled, and logprobs beside them match them one
    /// to one; alone, they are of the text only.
    fn take(&mut self, choice: usize, taken: &Taken) {
        if taken.is_text || self.context.token_ids {
            self.choices[choice].waiting.push(taken.token.clone());
        }
    }

    fn envelope(&self, object: &str, choices: Value) -> Value {
        let ReplyContext { id, created, model, .. } = &self.context;
        json!({ "id": id, "object": object, "created": created, "model": model, "choices": choices })
    }

    /// Adds to a choice what every shape has there: its number, the waiting tokens, and why the answer ended if it has.
    fn complete(&mut self, choice: usize, value: &mut Value, finish_reason: Option<&str>) {
        let state = &mut self.choices[choice];
        let tokens = std::mem::take(&mut state.waiting);
        let none_here = tokens.is_empty() && finish_reason.is_none();
        value["index"] = json!(choice);
        value["logprobs"] = match self.context.logprobs && !none_here {
            true => self.format.shape.logprobs(&tokens, &self.context.tokenizer, &mut state.text_offset),
            false => Value::Null,
        };
        value["finish_reason"] = json!(finish_reason);
        if self.context.token_ids {
            value["token_ids"] = tokens.iter().map(|token| token.id).collect();
        }
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = self.envelope(self.format.shape.chunk_object(), choices);
        if self.format.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn deltas(&mut self, choice: usize, deltas: &[Delta], out: &mut Vec<u8>) {
        for delta in deltas {
            let mut value = self.format.shape.chunk_choice(delta);
            self.complete(choice, &mut value, None);
            write(out, &self.chunk(json!([value])));
        }
    }

    /// Adds the stop string that ended an answer, under vLLM's name, and counts the tokens.
    fn finish_choice(&mut self, choice: usize, value: &mut Value, finished: &Finished) {
        let Finished { prompt_tokens, sampled_tokens, stop_string, .. } = finished;
        value["stop_reason"] = json!(stop_string);
        self.choices[choice].usage = Some(Usage { prompt_tokens: *prompt_tokens, sampled_tokens: *sampled_tokens });
    }

    /// `usage`: the prompt once, and all that was sampled.
    fn usage(&self) -> Value {
        let counted = || self.choices.iter().filter_map(|choice| choice.usage);
        let prompt_tokens = counted().next().map_or(0, |usage| usage.prompt_tokens);
        let sampled_tokens: usize = counted().map(|usage| usage.sampled_tokens).sum();
        json!({
            "prompt_tokens": prompt_tokens,
            "completion_tokens": sampled_tokens,
            "total_tokens": prompt_tokens + sampled_tokens,
        })
    }
}

impl ReplyWriter for OpenAiWriter {
    fn whole(&mut self, choices: &[WholeChoice]) -> Value {
        let mut values = Vec::with_capacity(choices.len());
        for (index, WholeChoice { tokens, finished }) in choices.iter().enumerate() {
            tokens.iter().for_each(|taken| self.take(index, taken));
            let mut value = self.format.shape.choice(&finished.message);
            self.complete(index, &mut value, Some(finished.reason.as_str()));
            self.finish_choice(index, &mut value, finished);
            values.push(value);
        }
        let mut reply = self.envelope(self.format.shape.object(), values.into());
        reply["usage"] = self.usage();
        if self.context.token_ids {
            self.format.shape.set_prompt_token_ids(&mut reply, &self.context.prompt);
        }
        reply
    }

    /// The first chunk of each choice tells that an answer has begun.
    fn begin(&mut self, out: &mut Vec<u8>) {
        for index in 0..self.context.choices {
            let mut value = self.format.shape.first_chunk_choice();
            value["index"] = json!(index);
            value["logprobs"] = Value::Null;
            value["finish_reason"] = Value::Null;
            let mut chunk = self.chunk(json!([value]));
            if self.context.token_ids {
                self.format.shape.set_prompt_token_ids(&mut chunk, &self.context.prompt);
            }
            write(out, &chunk);
        }
    }

    fn token(&mut self, choice: usize, taken: &Arc<Taken>, out: &mut Vec<u8>) {
        self.take(choice, taken);
        self.deltas(choice, &taken.deltas, out);
    }

    fn finish(&mut self, choice: usize, finished: &Finished, out: &mut Vec<u8>) {
        self.deltas(choice, &finished.held_back, out);
        let mut value = self.format.shape.last_chunk_choice();
        self.complete(choice, &mut value, Some(finished.reason.as_str()));
        self.finish_choice(choice, &mut value, finished);
        write(out, &self.chunk(json!([value])));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.format.include_usage {
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = self.usage();
            write(out, &chunk);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>) {
        write(out, &super::error::body(error));
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b": keep-alive\n\n");
    }
}

fn write(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(value.to_string().as_bytes());
    out.extend_from_slice(b"\n\n");
}
