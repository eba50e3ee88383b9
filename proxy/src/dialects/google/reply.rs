use fulgurite_backends::SampledToken;
use serde::Serialize;
use serde_json::{Value, json};

use super::answer_parts::{AnswerPart, PartReader};
use super::error;
use crate::dialects::json_text::write_json;
use crate::dialects::openai::token_logprobs::{PartSpelling, token_text};
use crate::error::ProxyError;
use crate::reply::answer_token::AnswerToken;
use crate::reply::assistant_message::Delta;
use crate::reply::call_event::Finished;
use crate::reply::event_text::write_event;
use crate::reply::finish_reason::FinishReason;
use crate::reply::reply_writer::{ReplyContext, ReplyWriter, WholeChoice};
use crate::requests::model_request::ReplyFormat;

/// How a stream is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum StreamForm {
    /// As server-sent events (`alt=sse`).
    Events,
    /// As the items of a JSON array.
    #[default]
    Array,
}

/// How generateContent writes an answer.
#[derive(Debug, PartialEq)]
pub(super) struct GoogleReply {
    /// Whether the client is to see what the model thinks.
    pub(super) shows_thoughts: bool,
    pub(super) stream: StreamForm,
}

impl ReplyFormat for GoogleReply {
    fn writer(self: Box<Self>, context: ReplyContext) -> Box<dyn ReplyWriter> {
        Box::new(GoogleWriter {
            reader: PartReader::new(self.shows_thoughts),
            stream: self.stream,
            context,
            waiting: Vec::new(),
            all: Vec::new(),
            usage: Usage::default(),
            has_items: false,
        })
    }
}

struct GoogleWriter {
    reader: PartReader,
    stream: StreamForm,
    context: ReplyContext,
    /// Sampled tokens that have not been told yet, if logprobs are to be.
    waiting: Vec<SampledToken>,
    /// All that was sampled, if the client is to have token ids.
    all: Vec<u32>,
    usage: Usage,
    /// Whether an item of a stream has been written.
    has_items: bool,
}

/// A response, or an item of a stream.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    candidates: [Candidate; 1],
    model_version: String,
    response_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<Value>,
    #[serde(rename = "prompt_token_ids", skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<Vec<u32>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Content,
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs_result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<&'static str>,
    #[serde(rename = "token_ids", skip_serializing_if = "Option::is_none")]
    token_ids: Option<Vec<u32>>,
}

#[derive(Serialize)]
struct Content {
    role: &'static str,
    parts: Vec<AnswerPart>,
}

/// Sampled tokens by what they say.
#[derive(Default)]
struct Usage {
    /// Tokens since something was said last.
    silent: usize,
    thoughts: usize,
}

impl Usage {
    fn count(&mut self, tokens: usize, deltas: &[Delta]) {
        self.silent += tokens;
        for delta in deltas {
            let silent_tokens = std::mem::take(&mut self.silent);
            if matches!(delta, Delta::Reasoning(_)) {
                self.thoughts += silent_tokens;
            }
        }
    }

    /// Google's numbers: thoughts are no part of the candidates' tokens, and what is zero is left out.
    fn json(&self, prompt_tokens: usize, finished: &Finished) -> Value {
        let thoughts = self.thoughts.min(finished.sampled_tokens);
        let cached = finished.cached_tokens.unwrap_or_default();
        let mut usage = json!({
            "promptTokenCount": prompt_tokens,
            "candidatesTokenCount": finished.sampled_tokens - thoughts,
            "totalTokenCount": prompt_tokens + finished.sampled_tokens,
        });
        for (name, count) in [("thoughtsTokenCount", thoughts), ("cachedContentTokenCount", cached)] {
            if count > 0 {
                usage[name] = count.into();
            }
        }
        usage
    }
}

impl GoogleWriter {
    /// Takes deltas, and adds their parts.
    fn read(&mut self, deltas: &[Delta], parts: &mut Vec<AnswerPart>) {
        for part in deltas.iter().filter_map(|delta| self.reader.take(delta)) {
            part.add_to(parts);
        }
    }

    fn keep(&mut self, sampled: &AnswerToken) {
        self.usage.count(1, &sampled.deltas);
        if self.context.logprobs {
            self.waiting.push(sampled.token.clone());
        }
        if self.context.token_ids {
            self.all.push(sampled.token.id);
        }
    }

    /// A response, or a piece of one: parts with the tokens behind them, and at the end how the answer ended.
    fn response(&mut self, mut parts: Vec<AnswerPart>, end: Option<&Finished>) -> Response {
        if parts.is_empty() {
            // Clients take an answer without parts for none at all.
            parts.push(AnswerPart::Text { text: String::new() });
        }
        let logprobs_result = (!self.waiting.is_empty()).then(|| self.logprobs());
        let ReplyContext { id, model, prompt, token_ids, .. } = &self.context;
        let is_end_with_ids = end.is_some() && *token_ids;
        let candidate = Candidate {
            content: Content { role: "model", parts },
            index: 0,
            logprobs_result,
            finish_reason: end.map(|finished| reason(finished.reason)),
            token_ids: is_end_with_ids.then(|| self.all.clone()),
        };
        Response {
            candidates: [candidate],
            model_version: model.clone(),
            response_id: id.clone(),
            usage_metadata: end.map(|finished| self.usage.json(prompt.len(), finished)),
            prompt_token_ids: is_end_with_ids.then(|| prompt.to_vec()),
        }
    }

    /// The tokens that have not been told, with their ids, their logprobs and those of others in their place.
    fn logprobs(&mut self) -> Value {
        let tokens = std::mem::take(&mut self.waiting);
        let candidate = |id: u32, logprob: f32| {
            let token = token_text(id, &self.context.tokenizer, PartSpelling::Chat);
            json!({ "token": token, "tokenId": id, "logProbability": f64::from(logprob) })
        };
        let chosen: Vec<Value> = tokens.iter().map(|token| candidate(token.id, token.logprob)).collect();
        let mut logprobs = json!({ "chosenCandidates": chosen });
        if tokens.iter().any(|token| !token.top_logprobs.is_empty()) {
            let top = tokens.iter().map(|token| {
                let candidates = token.top_logprobs.iter().map(|(id, logprob)| candidate(*id, *logprob));
                json!({ "candidates": candidates.collect::<Vec<Value>>() })
            });
            logprobs["topCandidates"] = top.collect();
        }
        logprobs
    }

    /// Writes an item of the stream.
    fn write(&mut self, item: &impl Serialize, out: &mut Vec<u8>) {
        let is_first = !std::mem::replace(&mut self.has_items, true);
        match self.stream {
            StreamForm::Events => {
                write_event(out, |out| write_json(out, item));
            }
            StreamForm::Array => {
                out.extend_from_slice(if is_first { b"" } else { b",\n" });
                write_json(out, item);
            }
        }
    }
}

impl ReplyWriter for GoogleWriter {
    fn whole(&mut self, choices: &[WholeChoice], out: &mut Vec<u8>) {
        for choice in choices {
            let mut parts = Vec::new();
            for sampled in choice.tokens() {
                self.keep(sampled);
                self.read(&sampled.deltas, &mut parts);
            }
            self.usage.count(0, &choice.finished.held_back);
            self.read(&choice.finished.held_back, &mut parts);
            let response = self.response(parts, Some(&choice.finished));
            write_json(out, &response);
        }
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if self.stream == StreamForm::Array {
            out.push(b'[');
        }
    }

    fn token(&mut self, _choice: usize, sampled: &AnswerToken, out: &mut Vec<u8>) {
        self.keep(sampled);
        let mut parts = Vec::new();
        self.read(&sampled.deltas, &mut parts);
        if !parts.is_empty() {
            let item = self.response(parts, None);
            self.write(&item, out);
        }
    }

    fn finish(&mut self, _choice: usize, finished: &Finished, out: &mut Vec<u8>) {
        let mut parts = Vec::new();
        self.usage.count(0, &finished.held_back);
        self.read(&finished.held_back, &mut parts);
        let item = self.response(parts, Some(finished));
        self.write(&item, out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.stream == StreamForm::Array {
            out.push(b']');
        }
    }

    /// Among events an error is no event: Google's servers write its JSON as it is, and its clients look for that. The one for
    /// JavaScript takes an event with an error for an answer without parts.
    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>) {
        match self.stream {
            StreamForm::Events => {
                write_json(out, &error::body(error));
                out.extend_from_slice(b"\n\n");
            }
            StreamForm::Array => self.write(&error::body(error), out),
        }
        self.end(out);
    }

    /// White space, in which clients that read line by line, or event by event, find nothing.
    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\n\n");
    }
}

/// Why an answer ended, by Google's names. Calls have none of their own.
fn reason(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop | FinishReason::ToolCalls => "STOP",
        FinishReason::Length => "MAX_TOKENS",
    }
}
