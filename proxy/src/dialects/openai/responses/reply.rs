use fulgurite_backends::SampledToken;
use fulgurite_types::exact_json;
use serde_json::{Map, Value, json};

use super::output_items::{Change, OutputItems, ReasoningForm};
use super::response_object::{ResponseStatus, response, status_event, usage, write_event};
use super::tool_forms::ToolForms;
use crate::dialects::openai::error::body;
use crate::dialects::openai::token_logprobs;
use crate::error::ProxyError;
use crate::error::wire_error::Dialect;
use crate::reply::answer_token::AnswerToken;
use crate::reply::assistant_message::Delta;
use crate::reply::call_event::Finished;
use crate::reply::event_text::KEEP_ALIVE;
use crate::reply::finish_reason::FinishReason;
use crate::reply::reply_writer::{ReplyContext, ReplyWriter, WholeChoice};
use crate::requests::model_request::ReplyFormat;

/// How Responses writes an answer.
#[derive(Debug)]
pub(super) struct ResponseReply {
    /// The part of the response that depends on its request.
    pub(super) echo: Map<String, Value>,
    pub(super) reasoning: ReasoningForm,
    /// How calls are spelled.
    pub(super) tools: ToolForms,
    /// Whether text comes with logprobs.
    pub(super) logprobs: bool,
}

impl ReplyFormat for ResponseReply {
    fn writer(self: Box<Self>, context: ReplyContext) -> Box<dyn ReplyWriter> {
        let items = OutputItems::new(&context.id, self.reasoning, self.tools.clone());
        Box::new(ResponseWriter {
            format: *self,
            context,
            items,
            tokens: Vec::new(),
            silent_since: 0,
            calls_since: Vec::new(),
            reasoning_tokens: 0,
            next_event: 0,
        })
    }
}

struct ResponseWriter {
    format: ResponseReply,
    context: ReplyContext,
    items: OutputItems,
    /// All that was sampled.
    tokens: Vec<Kept>,
    /// The first token of which nothing has left yet.
    silent_since: usize,
    /// The same when each call began.
    calls_since: Vec<usize>,
    reasoning_tokens: usize,
    /// Number of the next event.
    next_event: u64,
}

struct Kept {
    token: SampledToken,
    is_text: bool,
}

impl ResponseWriter {
    /// Takes what tokens made certain.
    fn take_deltas(&mut self, deltas: &[Delta]) -> Vec<Change> {
        let mut changes = Vec::new();
        for delta in deltas {
            match delta {
                Delta::ToolCall { .. } => self.calls_since.push(self.silent_since),
                // The tokens of a malformed call are sent with its text, which follows.
                Delta::Void { index, .. } => {
                    self.silent_since = self.calls_since.get(*index).copied().unwrap_or(self.silent_since);
                    changes.extend(self.items.take(delta, Vec::new()));
                    continue;
                }
                Delta::Reasoning(_) | Delta::Text(_) | Delta::Arguments { .. } => {}
            }
            let silent_tokens = &self.tokens[std::mem::replace(&mut self.silent_since, self.tokens.len())..];
            let logprobs = match delta {
                Delta::Reasoning(_) => {
                    self.reasoning_tokens += silent_tokens.len();
                    Vec::new()
                }
                Delta::Text(text) if self.format.logprobs => self.entries(self.tokens_of_text(silent_tokens, text)),
                _ => Vec::new(),
            };
            changes.extend(self.items.take(delta, logprobs));
        }
        changes
    }

    fn take(&mut self, sampled: &AnswerToken) -> Vec<Change> {
        self.tokens.push(Kept { token: sampled.token.clone(), is_text: sampled.is_text });
        self.take_deltas(&sampled.deltas)
    }

    fn end_items(&mut self, finished: &Finished) -> Vec<Change> {
        let mut changes = self.take_deltas(&finished.held_back);
        changes.extend(self.items.finish(&finished.message, finished.reason != FinishReason::Length));
        changes
    }

    /// Those tokens, the last ones, that make up a text; those before them are markup.
    fn tokens_of_text<'t>(&self, tokens: &'t [Kept], text: &str) -> &'t [Kept] {
        let end = tokens.iter().rposition(|kept| kept.is_text).map_or(0, |last| last + 1);
        let (mut start, mut bytes) = (end, 0);
        while start > 0 && bytes < text.len() {
            start -= 1;
            let token = self.context.tokenizer.id_to_bytes(tokens[start].token.id);
            bytes += token.map_or(0, <[u8]>::len);
        }
        &tokens[start..end]
    }

    fn entries(&self, tokens: &[Kept]) -> Vec<Value> {
        let entries = token_logprobs::entries(tokens.iter().map(|kept| &kept.token), &self.context.tokenizer);
        entries.iter().map(|entry| json!(entry)).collect()
    }

    fn response(&self, response_status: &ResponseStatus) -> Value {
        let ReplyContext { id, created, model, .. } = &self.context;
        let output = match response_status {
            ResponseStatus::InProgress => Vec::new(),
            _ => self.items.values(),
        };
        response(id, *created, model, &self.format.echo, response_status, output)
    }

    /// The response once its answer has ended. Token ids are all that was sampled, and logprobs match them one to one.
    fn ended(&self, finished: &Finished) -> Value {
        let mut response = self.response(&response_status(finished));
        response["usage"] = usage(finished, self.reasoning_tokens);
        if self.context.token_ids {
            response["prompt_token_ids"] = json!(*self.context.prompt);
            response["token_ids"] = self.tokens.iter().map(|kept| kept.token.id).collect();
            response["logprobs"] = json!({ "content": self.entries(&self.tokens) });
        }
        response
    }

    fn write_changes(&mut self, changes: &[Change], out: &mut Vec<u8>) {
        for change in changes {
            for event in self.items.events(change) {
                self.write(event, out);
            }
        }
    }

    fn write(&mut self, event: Value, out: &mut Vec<u8>) {
        write_event(event, self.next_event, out);
        self.next_event += 1;
    }

    fn write_status(&mut self, name: &str, response: Value, out: &mut Vec<u8>) {
        self.write(status_event(name, response), out);
    }
}

/// How an answer ended.
fn response_status(finished: &Finished) -> ResponseStatus {
    match finished.reason {
        FinishReason::Stop | FinishReason::ToolCalls => ResponseStatus::Completed,
        FinishReason::Length => ResponseStatus::Incomplete,
    }
}

impl ReplyWriter for ResponseWriter {
    fn whole(&mut self, choices: &[WholeChoice], out: &mut Vec<u8>) {
        for choice in choices {
            let finished = &choice.finished;
            for sampled in choice.tokens() {
                self.take(sampled);
            }
            self.end_items(finished);
            out.extend_from_slice(exact_json(&self.ended(finished)).as_bytes());
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        let response = self.response(&ResponseStatus::InProgress);
        self.write_status("created", response.clone(), out);
        self.write_status("in_progress", response, out);
    }

    fn token(&mut self, _choice: usize, sampled: &AnswerToken, out: &mut Vec<u8>) {
        let changes = self.take(sampled);
        self.write_changes(&changes, out);
    }

    fn finish(&mut self, _choice: usize, finished: &Finished, out: &mut Vec<u8>) {
        let changes = self.end_items(finished);
        self.write_changes(&changes, out);
        let response = self.ended(finished);
        self.write_status(response_status(finished).name(), response, out);
    }

    fn end(&mut self, _out: &mut Vec<u8>) {}

    /// For two kinds of clients: those that read how a response ended, and those that stop at an error.
    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>) {
        let response_status = ResponseStatus::Failed(error.in_dialect(Dialect::OpenAi).message);
        let response = self.response(&response_status);
        self.write_status(response_status.name(), response, out);
        let mut event = body(error)["error"].take();
        event["type"] = json!("error");
        self.write(event, out);
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(KEEP_ALIVE);
    }
}
