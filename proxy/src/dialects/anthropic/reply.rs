use fulgurite_backends::SampledToken;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};

use super::content_blocks::{ContentBlock, ContentBlocks, EagerCalls};
use super::error::{self, RequestId};
use crate::dialects::json_text::write_json;
use crate::dialects::openai::token_logprobs;
use crate::error::ProxyError;
use crate::reply::answer_token::AnswerToken;
use crate::reply::assistant_message::Delta;
use crate::reply::call_event::Finished;
use crate::reply::event_text::write_named_event;
use crate::reply::finish_reason::FinishReason;
use crate::reply::reply_writer::{ReplyContext, ReplyWriter, WholeChoice};
use crate::requests::model_request::ReplyFormat;

/// How Messages writes an answer.
#[derive(Debug, PartialEq)]
pub(super) struct MessageReply {
    /// Whether the client is to see what the model thinks.
    pub(super) shows_thinking: bool,
    pub(super) eager_calls: EagerCalls,
    pub(super) request_id: RequestId,
}

impl ReplyFormat for MessageReply {
    fn writer(self: Box<Self>, context: ReplyContext) -> Box<dyn ReplyWriter> {
        let blocks = ContentBlocks::new(self.shows_thinking, self.eager_calls);
        Box::new(MessageWriter { request_id: self.request_id, context, blocks, tokens: Vec::new() })
    }
}

struct MessageWriter {
    request_id: RequestId,
    context: ReplyContext,
    blocks: ContentBlocks,
    /// All that was sampled, if the client is to have token ids.
    tokens: Vec<SampledToken>,
}

impl MessageWriter {
    /// A message of no content.
    fn message(&self, end: Value, usage: Value) -> Value {
        let ReplyContext { id, model, .. } = &self.context;
        let mut message = json!({
            "id": id,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": end["stop_reason"],
            "stop_sequence": end["stop_sequence"],
            "usage": usage,
        });
        if self.context.token_ids {
            message["prompt_token_ids"] = json!(*self.context.prompt);
        }
        message
    }

    /// Input tokens are those that were not read from a cache.
    fn usage(&self, sampled_tokens: usize, cached_tokens: Option<usize>) -> Value {
        let cached_tokens = cached_tokens.unwrap_or_default();
        json!({
            "input_tokens": self.context.prompt.len().saturating_sub(cached_tokens),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached_tokens,
            "output_tokens": sampled_tokens,
        })
    }

    fn keep(&mut self, token: &AnswerToken) {
        if self.context.token_ids {
            self.tokens.push(token.token.clone());
        }
    }

    /// Adds what was sampled: the stop token too, and a logprob for each token.
    fn add_token_ids(&self, value: &mut Value) {
        if self.context.token_ids {
            value["token_ids"] = self.tokens.iter().map(|token| token.id).collect();
            value["logprobs"] = json!({ "content": token_logprobs::entries(&self.tokens, &self.context.tokenizer) });
        }
    }

    fn write_deltas(&mut self, deltas: &[Delta], out: &mut Vec<u8>) {
        for delta in deltas {
            self.blocks.take(delta).iter().for_each(|event| write(out, event));
        }
    }
}

impl ReplyWriter for MessageWriter {
    fn whole(&mut self, choices: &[WholeChoice], out: &mut Vec<u8>) {
        for choice in choices {
            let finished = &choice.finished;
            let deltas = choice.tokens().flat_map(|token| token.deltas.iter()).chain(&finished.held_back);
            deltas.for_each(|delta| drop(self.blocks.take(delta)));
            self.blocks.finish();
            choice.tokens().for_each(|token| self.keep(token));
            let usage = self.usage(finished.sampled_tokens, finished.cached_tokens);
            let mut message = self.message(end(finished), usage);
            self.add_token_ids(&mut message);
            write_json(out, &MessageWith { message: &message, content: self.blocks.content() });
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        let message = self.message(json!({}), self.usage(0, None));
        write(out, &json!({ "type": "message_start", "message": message }));
        // As Anthropic's own streams begin.
        self.keep_alive(out);
    }

    fn token(&mut self, _choice: usize, token: &AnswerToken, out: &mut Vec<u8>) {
        self.keep(token);
        self.write_deltas(&token.deltas, out);
    }

    fn finish(&mut self, _choice: usize, finished: &Finished, out: &mut Vec<u8>) {
        self.write_deltas(&finished.held_back, out);
        self.blocks.finish().iter().for_each(|event| write(out, event));
        let usage = self.usage(finished.sampled_tokens, finished.cached_tokens);
        let mut event = json!({ "type": "message_delta", "delta": end(finished), "usage": usage });
        self.add_token_ids(&mut event);
        write(out, &event);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        write(out, &json!({ "type": "message_stop" }));
    }

    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>) {
        write(out, &error::body(error, &self.request_id));
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        write(out, &json!({ "type": "ping" }));
    }
}

/// A message with content, which a [`Value`] would round the long integers of.
struct MessageWith<'m> {
    message: &'m Value,
    content: Vec<ContentBlock<'m>>,
}

impl Serialize for MessageWith<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.message.as_object().into_iter().flatten() {
            match name.as_str() {
                "content" => map.serialize_entry(name, &self.content)?,
                _ => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

/// How an answer ended.
fn end(finished: &Finished) -> Value {
    let (reason, string) = match (finished.reason, &finished.stop_string) {
        (FinishReason::Stop, Some(string)) => ("stop_sequence", Some(string)),
        (FinishReason::Stop, None) => ("end_turn", None),
        (FinishReason::ToolCalls, _) => ("tool_use", None),
        (FinishReason::Length, _) => ("max_tokens", None),
    };
    json!({ "stop_reason": reason, "stop_sequence": string })
}

/// Writes an event under its own name.
fn write(out: &mut Vec<u8>, event: &Value) {
    let name = event["type"].as_str().unwrap_or_default();
    write_named_event(out, name, event);
}
