use fulgurite_backends::SampledToken;
use serde_json::{Value, json};

use crate::dialects::json_text::write_json;
use crate::dialects::openai::error::body;
use crate::error::ProxyError;
use crate::reply::answer_token::AnswerToken;
use crate::reply::call_event::Finished;
use crate::reply::event_text::{DONE, KEEP_ALIVE, write_event};
use crate::reply::reply_writer::{ReplyContext, ReplyWriter, WholeChoice};
use crate::requests::model_request::ReplyFormat;

/// How vLLM's `/inference/v1/generate` writes answers: as tokens, and with the weights that sampled them at the end. The last
/// token comes with the end, for which clients do not wait behind a stop token.
#[derive(Debug)]
pub(super) struct GenerateReply;

impl ReplyFormat for GenerateReply {
    fn writer(self: Box<Self>, context: ReplyContext) -> Box<dyn ReplyWriter> {
        let choices = (0..context.choices).map(|_| Vec::new()).collect();
        Box::new(GenerateWriter { context, choices })
    }
}

struct GenerateWriter {
    context: ReplyContext,
    /// What was sampled of each answer.
    choices: Vec<Vec<SampledToken>>,
}

impl GenerateWriter {
    fn entry(token: u32, logprob: f32) -> Value {
        json!({ "token": format!("token_id:{token}"), "token_id": token, "logprob": f64::from(logprob) })
    }

    fn choice(&self, index: usize, tokens: &[SampledToken]) -> Value {
        let logprobs = self.context.logprobs.then(|| {
            let entry = |token: &SampledToken| {
                let mut entry = Self::entry(token.id, token.logprob);
                entry["top_logprobs"] =
                    token.top_logprobs.iter().map(|(id, logprob)| Self::entry(*id, *logprob)).collect();
                entry
            };
            json!({ "content": tokens.iter().map(entry).collect::<Vec<_>>() })
        });
        let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
        json!({ "index": index, "token_ids": ids, "logprobs": logprobs, "finish_reason": null, "stop_reason": null })
    }

    fn ended(&self, mut choice: Value, all: &[SampledToken], finished: &Finished) -> Value {
        choice["finish_reason"] = json!(match finished.reason.as_str() {
            "length" => "length",
            _ => "stop",
        });
        choice["stop_reason"] = json!(finished.stop_string);
        choice["weight_versions"] = weight_versions(all);
        choice
    }

    fn reply(&self, choices: Vec<Value>) -> Value {
        let ReplyContext { id, created, model, prompt, token_ids, .. } = &self.context;
        let mut reply = json!({ "request_id": id, "created": created, "model": model, "choices": choices });
        if *token_ids {
            reply["prompt_token_ids"] = json!(**prompt);
        }
        reply
    }
}

/// Which weights sampled which of the tokens, counted from 0, ends excluded.
fn weight_versions(tokens: &[SampledToken]) -> Value {
    let mut spans: Vec<Value> = Vec::new();
    for part in tokens.chunk_by(|one, other| one.weights_version == other.weights_version) {
        let start = spans.last().map_or(0, |last| last["end"].as_u64().unwrap_or_default());
        let version =
            part.first().and_then(|token| token.weights_version.as_ref()).map(|version| version.0.to_string());
        spans.push(json!({ "version": version, "start": start, "end": start + part.len() as u64 }));
    }
    spans.into()
}

impl ReplyWriter for GenerateWriter {
    fn whole(&mut self, choices: &[WholeChoice], out: &mut Vec<u8>) {
        let choice = |(index, choice): (usize, &WholeChoice)| {
            let tokens: Vec<SampledToken> = choice.tokens().map(|token| token.token.clone()).collect();
            self.ended(self.choice(index, &tokens), &tokens, &choice.finished)
        };
        let written = choices.iter().enumerate().map(choice).collect();
        let mut reply = self.reply(written);
        let prompt = self.context.prompt.len();
        let sampled: usize = choices.iter().map(|choice| choice.finished.sampled_tokens).sum();
        reply["usage"] =
            json!({ "prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled });
        write_json(out, &reply);
    }

    fn begin(&mut self, _out: &mut Vec<u8>) {}

    fn token(&mut self, choice: usize, token: &AnswerToken, out: &mut Vec<u8>) {
        if let Some(before) = self.choices[choice].last() {
            let written = self.choice(choice, std::slice::from_ref(before));
            write_event(out, |out| write_json(out, &self.reply(vec![written])));
        }
        self.choices[choice].push(token.token.clone());
    }

    fn finish(&mut self, choice: usize, finished: &Finished, out: &mut Vec<u8>) {
        let all = &self.choices[choice];
        let ended = self.ended(self.choice(choice, &all[all.len().saturating_sub(1)..]), all, finished);
        write_event(out, |out| write_json(out, &self.reply(vec![ended])));
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(DONE);
    }

    fn fail(&mut self, error: &ProxyError, out: &mut Vec<u8>) {
        write_event(out, |out| write_json(out, &body(error)));
    }

    fn keep_alive(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(KEEP_ALIVE);
    }
}
