use std::sync::Arc;

use bytes::Bytes;
use fulgurite_backends::SampledToken;
use fulgurite_renderers::Tokenizer;
use serde_json::{Value, json};

use super::shape::Shape;
use crate::answer::Taken;
use crate::call::{CallEvent, Finished};
use crate::reply_message::Delta;
use crate::response_body::{Encode, Piece};

/// Writes one call's answer, whole or as server-sent events.
pub(crate) struct Reply {
    pub(crate) shape: Shape,
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) logprobs: bool,
    /// The prompt, if the client is to have token ids.
    pub(crate) prompt_token_ids: Option<Vec<u32>>,
    /// Whether a stream ends with a chunk that counts tokens.
    pub(crate) include_usage: bool,
    pub(crate) state: ReplyState,
}

/// How far an answer has been written.
#[derive(Default)]
pub(crate) struct ReplyState {
    /// Tokens that nothing has carried yet: of a stream, those of which nothing has left yet.
    waiting: Vec<SampledToken>,
    /// Characters in the tokens that have been carried.
    text_offset: usize,
    begun: bool,
}

impl Reply {
    /// Keeps a token for the next choice. Token ids are all that was sampled, and logprobs beside them match them one
    /// to one; alone, they are of the text only.
    pub(crate) fn take(&mut self, token: SampledToken, is_text: bool) {
        if is_text || self.prompt_token_ids.is_some() {
            self.state.waiting.push(token);
        }
    }

    /// The answer in one piece, of all tokens that were taken.
    pub(crate) fn whole(&mut self, finished: &Finished) -> Value {
        let mut choice = self.shape.choice(&finished.message);
        self.finish_choice(&mut choice, Some(finished.reason.as_str()));
        let mut reply = self.envelope(self.shape.object(), json!([choice]));
        reply["usage"] = usage(finished);
        if let Some(prompt) = &self.prompt_token_ids {
            self.shape.set_prompt_token_ids(&mut reply, prompt);
        }
        reply
    }

    fn envelope(&self, object: &str, choices: Value) -> Value {
        json!({ "id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices })
    }

    /// Adds to a choice what every shape has there: the waiting tokens, and why the answer ended if it has.
    fn finish_choice(&mut self, choice: &mut Value, finish_reason: Option<&str>) {
        let tokens = std::mem::take(&mut self.state.waiting);
        let none_here = tokens.is_empty() && finish_reason.is_none();
        choice["logprobs"] = match self.logprobs && !none_here {
            true => self.shape.logprobs(&tokens, &self.tokenizer, &mut self.state.text_offset),
            false => Value::Null,
        };
        choice["finish_reason"] = json!(finish_reason);
        if self.prompt_token_ids.is_some() {
            choice["token_ids"] = tokens.iter().map(|token| token.id).collect();
        }
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = self.envelope(self.shape.chunk_object(), choices);
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    /// The first chunk tells that an answer has begun.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.state.begun, true) {
            return;
        }
        let mut choice = self.shape.first_chunk_choice();
        choice["logprobs"] = Value::Null;
        choice["finish_reason"] = Value::Null;
        let mut chunk = self.chunk(json!([choice]));
        if let Some(prompt) = &self.prompt_token_ids {
            self.shape.set_prompt_token_ids(&mut chunk, prompt);
        }
        write(out, &chunk);
    }

    fn go_on(&mut self, out: &mut Vec<u8>, deltas: &[Delta]) {
        for delta in deltas {
            let mut choice = self.shape.chunk_choice(delta);
            self.finish_choice(&mut choice, None);
            write(out, &self.chunk(json!([choice])));
        }
    }

    /// The last chunk of the choice.
    fn end(&mut self, out: &mut Vec<u8>, finish_reason: &str) {
        let mut choice = self.shape.last_chunk_choice();
        self.finish_choice(&mut choice, Some(finish_reason));
        write(out, &self.chunk(json!([choice])));
    }
}

impl Encode for Reply {
    fn encode(&mut self, event: CallEvent) -> Piece {
        let mut out = Vec::new();
        let mut delivered = None;
        match event {
            CallEvent::Token(Taken { token, is_text, deltas }) => {
                self.begin(&mut out);
                self.take(token, is_text);
                self.go_on(&mut out, &deltas);
            }
            CallEvent::Finished(finished) => {
                self.begin(&mut out);
                self.go_on(&mut out, &finished.held_back);
                self.end(&mut out, finished.reason.as_str());
                if self.include_usage {
                    let mut chunk = self.chunk(json!([]));
                    chunk["usage"] = usage(&finished);
                    write(&mut out, &chunk);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
                delivered = Some(finished.delivered);
            }
            CallEvent::Failed(error) => write(&mut out, &super::error::body(&error)),
        }
        Piece { bytes: Bytes::from(out), delivered }
    }
}

fn write(out: &mut Vec<u8>, value: &Value) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(value.to_string().as_bytes());
    out.extend_from_slice(b"\n\n");
}

/// `usage`: tokens as the sampler counted them.
fn usage(finished: &Finished) -> Value {
    json!({
        "prompt_tokens": finished.prompt_tokens,
        "completion_tokens": finished.sampled_tokens,
        "total_tokens": finished.prompt_tokens + finished.sampled_tokens,
    })
}
