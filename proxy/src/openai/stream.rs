use std::sync::Arc;

use bytes::Bytes;
use fulgurite_renderers::Tokenizer;
use serde_json::{Value, json};

use super::response::{Header, token_logprob, usage};
use crate::call::CallEvent;
use crate::response_body::{Encode, Piece};

/// Writes a call's events as `chat.completion.chunk` server-sent events.
pub(crate) struct ChatStream {
    pub(crate) header: Header,
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) logprobs: bool,
    pub(crate) token_ids: Option<Vec<u32>>,
    pub(crate) include_usage: bool,
    /// Logprobs of tokens whose text is still held back.
    pub(crate) waiting_logprobs: Vec<Value>,
    /// Ids of tokens that no chunk has carried yet.
    pub(crate) waiting_ids: Vec<u32>,
    pub(crate) begun: bool,
}

impl ChatStream {
    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.header.id,
            "object": "chat.completion.chunk",
            "created": self.header.created,
            "model": self.header.model,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn choice(&mut self, delta: Value, finish_reason: Option<&str>) -> Value {
        let logprobs = std::mem::take(&mut self.waiting_logprobs);
        let mut choice = json!({
            "index": 0,
            "delta": delta,
            "logprobs": (!logprobs.is_empty()).then(|| json!({ "content": logprobs, "refusal": null })),
            "finish_reason": finish_reason,
        });
        if self.token_ids.is_some() {
            choice["token_ids"] = json!(std::mem::take(&mut self.waiting_ids));
        }
        choice
    }

    fn write(&self, out: &mut Vec<u8>, value: &Value) {
        out.extend_from_slice(b"data: ");
        out.extend_from_slice(value.to_string().as_bytes());
        out.extend_from_slice(b"\n\n");
    }

    /// The first chunk names the role, so that a client knows an answer has begun.
    fn begin(&mut self, out: &mut Vec<u8>) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let delta = json!({ "role": "assistant", "content": "", "refusal": null });
        let mut chunk = self.chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }]));
        if let Some(prompt) = &self.token_ids {
            chunk["prompt_token_ids"] = json!(prompt);
        }
        self.write(out, &chunk);
    }
}

impl Encode for ChatStream {
    fn encode(&mut self, event: CallEvent) -> Piece {
        let mut out = Vec::new();
        let mut delivered = None;
        match event {
            CallEvent::Token { token, text, is_text } => {
                self.begin(&mut out);
                if self.logprobs && is_text {
                    self.waiting_logprobs.push(token_logprob(&token, &self.tokenizer));
                }
                self.waiting_ids.push(token.id);
                if !text.is_empty() {
                    let choice = self.choice(json!({ "content": text }), None);
                    self.write(&mut out, &self.chunk(json!([choice])));
                }
            }
            CallEvent::Finished(finished) => {
                self.begin(&mut out);
                if !finished.text.is_empty() {
                    let choice = self.choice(json!({ "content": finished.text }), None);
                    self.write(&mut out, &self.chunk(json!([choice])));
                }
                let choice = self.choice(json!({}), Some(finished.reason.as_str()));
                self.write(&mut out, &self.chunk(json!([choice])));
                if self.include_usage {
                    let mut chunk = self.chunk(json!([]));
                    chunk["usage"] = usage(&finished);
                    self.write(&mut out, &chunk);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
                delivered = Some(finished.delivered);
            }
            CallEvent::Failed(error) => self.write(&mut out, &super::error::body(&error)),
        }
        Piece { bytes: Bytes::from(out), delivered }
    }
}
