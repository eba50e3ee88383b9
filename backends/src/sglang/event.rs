use fulgurite_types::WeightsVersion;
use serde::Deserialize;
use serde_json::Value;

use super::request::is_truncated;
use crate::remote::answer::{Elements, Piece, PieceToken};
use crate::remote::answer_stream::{ReadEvent, event_of};
use crate::remote::http::error_words::fault_of_error;
use crate::remote::weights_label::{WeightsSpan, weights_version};
use crate::{AnswerFault, SampleRequest, SamplingEnd};

/// Reads events that tell everything so far, or, from a server that streams increments, what is new.
#[derive(Debug)]
pub(super) struct SglangReader {
    prompt_tokens: usize,
    /// Whether what top-k and top-p left was requested.
    is_truncated: bool,
    last: Option<i64>,
    version: Option<WeightsVersion>,
}

#[derive(Deserialize)]
struct SglangEvent {
    output_ids: Option<Vec<i64>>,
    meta_info: Option<MetaInfo>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct MetaInfo {
    finish_reason: Option<Value>,
    prompt_tokens: Option<usize>,
    /// Tokens so far, in either way of streaming.
    completion_tokens: usize,
    #[serde(default)]
    output_token_logprobs: Vec<Logprob>,
    #[serde(default)]
    output_top_logprobs: Vec<Option<Vec<Logprob>>>,
    /// What top-k and top-p left, for each token.
    #[serde(default)]
    output_token_sampling_mask: Vec<Vec<i64>>,
    #[serde(default)]
    output_token_sampling_logprobs: Vec<AmongWhatWasLeft>,
    weight_version: Option<String>,
    weight_versions: Option<Vec<WeightsSpan>>,
    cached_tokens: Option<usize>,
}

/// The logprob of a token among what top-k and top-p left, or of each of these.
#[derive(Deserialize)]
#[serde(untagged)]
enum AmongWhatWasLeft {
    Sampled(Option<f64>),
    Each(Vec<f64>),
}

/// Logprob, id, and the text or null.
#[derive(Deserialize)]
struct Logprob(Option<f64>, i64, #[allow(dead_code)] Option<String>);

impl ReadEvent for SglangReader {
    fn read(&mut self, data: &str, tokens_so_far: usize) -> Result<Option<Piece>, AnswerFault> {
        let event: SglangEvent = event_of(data)?;
        if let Some(error) = event.error {
            let is_first = tokens_so_far == 0 && event.meta_info.is_none();
            return Err(match fault_of_error(&error) {
                AnswerFault::HostError { message } if is_first && is_of_request(&error, &message) => {
                    AnswerFault::Refused { message }
                }
                fault => fault,
            });
        }
        let Some(meta) = event.meta_info else { return Ok(None) };
        let end = meta.finish_reason.as_ref().map(stop_reason).transpose()?;
        let ids = event.output_ids.ok_or(AnswerFault::NoTokenIds)?;
        if ids.len() != meta.output_token_logprobs.len() {
            return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: meta.output_token_logprobs.len() });
        }
        if meta.prompt_tokens.is_some_and(|tokens| tokens != self.prompt_tokens) {
            return Err(AnswerFault::PromptDiffers);
        }
        let before = self.repeated_tokens(&ids, meta.completion_tokens, tokens_so_far)?;
        let (masks, among) = (meta.output_token_sampling_mask, meta.output_token_sampling_logprobs);
        if self.is_truncated && (masks.len() != ids.len() || among.len() != ids.len()) {
            return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: masks.len().min(among.len()) });
        }
        let version = self.version_of_event(meta.weight_version.as_deref().and_then(weights_version));
        let mut left = masks.into_iter().zip(among).skip(before);
        let mut top_logprobs = meta.output_top_logprobs.into_iter().skip(before);
        let mut tokens = Elements::with_capacity(ids.len() - before);
        for (id, Logprob(logprob, reported_id, _)) in ids.into_iter().zip(meta.output_token_logprobs).skip(before) {
            if reported_id != id {
                let (one, other) = (id.to_string(), reported_id.to_string());
                return Err(AnswerFault::TokensDiffer { position: tokens_so_far + tokens.len(), one, other });
            }
            let (logprob, alternatives) = match left.next() {
                Some((mask, among)) => among.of(id, mask),
                None => {
                    let tops = top_logprobs.next().flatten().unwrap_or_default();
                    (logprob, tops.iter().filter_map(|top| Some((top.1, top.0?))).collect())
                }
            };
            tokens.push(PieceToken { id, logprob, alternatives, weights_version: version });
            self.last = Some(id);
        }
        // Each event says it.
        let cached = end.and(meta.cached_tokens);
        Ok(Some(Piece { prompt: None, tokens, weights: meta.weight_versions, cached, end }))
    }
}

impl AmongWhatWasLeft {
    /// The logprob of a token that was sampled from these, and those of all where they are reported.
    fn of(self, sampled: i64, mask: Vec<i64>) -> (Option<f64>, Elements<(i64, f64)>) {
        match self {
            Self::Sampled(logprob) => (logprob, Elements::new()),
            Self::Each(logprobs) => {
                let each: Elements<(i64, f64)> = mask.into_iter().zip(logprobs).collect();
                (each.iter().find(|(id, _)| *id == sampled).map(|(_, logprob)| *logprob), each)
            }
        }
    }
}

impl SglangReader {
    pub(super) fn new(request: &SampleRequest) -> Self {
        let (prompt_tokens, is_truncated) = (request.prompt.len(), is_truncated(request));
        Self { prompt_tokens, is_truncated, last: None, version: None }
    }

    /// The weights behind an event's tokens by the label that it came with. When that changes in the middle of an answer,
    /// it is not known which of the tokens were sampled before.
    fn version_of_event(&mut self, reported: Option<WeightsVersion>) -> Option<WeightsVersion> {
        let before = std::mem::replace(&mut self.version, reported);
        reported.filter(|reported| before.is_none_or(|before| before == *reported))
    }

    /// How many of an event's tokens earlier events told.
    fn repeated_tokens(&self, ids: &[i64], tokens_so_far: usize, known_tokens: usize) -> Result<usize, AnswerFault> {
        if ids.len() == tokens_so_far && ids.len() >= known_tokens {
            // All of them again, so that the last one that was taken is in its place.
            return match (known_tokens.checked_sub(1).map(|last| ids[last]), self.last) {
                (Some(repeated), Some(last)) if repeated != last => {
                    let (one, other) = (last.to_string(), repeated.to_string());
                    Err(AnswerFault::TokensDiffer { position: known_tokens - 1, one, other })
                }
                _ => Ok(known_tokens),
            };
        }
        match ids.len() + known_tokens == tokens_so_far {
            true => Ok(0),
            false => Err(AnswerFault::CountsDiffer { tokens: tokens_so_far, logprobs: known_tokens + ids.len() }),
        }
    }
}

/// Whether an error is the request's: older servers say so in words alone, with status 200 and no code.
fn is_of_request(error: &Value, message: &str) -> bool {
    let words = ["context length", " must be in ", " must be at least "];
    error["code"].is_null() && words.iter().any(|words| message.contains(words))
}

/// Why an answer ended: `{"type": "stop" | "length" | "abort", ...}`.
fn stop_reason(reason: &Value) -> Result<SamplingEnd, AnswerFault> {
    match reason["type"].as_str() {
        Some("stop") => Ok(SamplingEnd::StopToken),
        Some("length") => Ok(SamplingEnd::Length),
        Some("abort") => Err(fault_of_error(reason)),
        _ => Err(AnswerFault::UnknownEnd { reason: reason.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::SamplingParameters;
    use serde_json::json;

    use super::*;

    fn request() -> SampleRequest {
        SampleRequest { stop_tokens: vec![9], top_logprobs: 2, ..SampleRequest::new(vec![1, 2, 5], 3, 1) }
    }

    fn truncated() -> SampleRequest {
        let sampling = SamplingParameters { top_k: Some(2), ..SamplingParameters::default() };
        SampleRequest { sampling, ..request() }
    }

    /// An event that tells these tokens, of `so_far` in all.
    fn event(tokens: &[(i64, f64)], so_far: usize, finish_reason: Value) -> Value {
        let ids: Vec<i64> = tokens.iter().map(|token| token.0).collect();
        let logprobs: Vec<Value> = tokens.iter().map(|(id, logprob)| json!([logprob, id, null])).collect();
        let tops: Vec<Value> =
            tokens.iter().map(|(id, logprob)| json!([[logprob, id, null], [-0.5, 3, null]])).collect();
        json!({ "text": "?", "output_ids": ids, "meta_info": {
            "id": "r", "finish_reason": finish_reason, "prompt_tokens": 3, "completion_tokens": so_far,
            "weight_version": "v3", "output_token_logprobs": logprobs, "output_top_logprobs": tops,
        } })
    }

    fn read_all(events: &[Value]) -> Result<Vec<Piece>, AnswerFault> {
        let mut reader = SglangReader::new(&request());
        let mut tokens_so_far = 0;
        let mut pieces = Vec::new();
        for event in events {
            let piece = reader.read(&event.to_string(), tokens_so_far)?.unwrap();
            tokens_so_far += piece.tokens.len();
            pieces.push(piece);
        }
        Ok(pieces)
    }

    fn ids(pieces: &[Piece]) -> Vec<i64> {
        pieces.iter().flat_map(|piece| &piece.tokens).map(|token| token.id).collect()
    }

    #[test]
    fn both_ways_of_streaming_give_each_token_once() {
        let stop = || json!({ "type": "stop", "matched": 9 });
        let all = [(4, -1.0), (6, -2.0), (9, -0.5)];
        let cumulative = [event(&all[..1], 1, Value::Null), event(&all[..2], 2, Value::Null), event(&all, 3, stop())];
        let increments =
            [event(&all[..1], 1, Value::Null), event(&all[1..2], 2, Value::Null), event(&all[2..], 3, stop())];
        for events in [&cumulative, &increments] {
            let pieces = read_all(events).unwrap();
            assert_eq!(ids(&pieces), [4, 6, 9]);
            assert_eq!(pieces.last().unwrap().end, Some(SamplingEnd::StopToken));
            let token = &pieces[1].tokens[0];
            assert_eq!((token.logprob, token.weights_version), (Some(-2.0), weights_version("3")));
            assert_eq!(token.alternatives[..], [(6, -2.0), (3, -0.5)]);
        }
    }

    #[test]
    fn an_end_without_a_new_token_is_an_end() {
        let pieces =
            read_all(&[event(&[(4, -1.0)], 1, Value::Null), event(&[(4, -1.0)], 1, json!({ "type": "length" }))])
                .unwrap();
        assert_eq!((ids(&pieces), pieces[1].end), (vec![4], Some(SamplingEnd::Length)));
    }

    /// An event with what top-k and top-p left.
    fn left(logprobs: Value, masks: Value) -> Value {
        let mut event = event(&[(4, -1.0), (6, -2.0)], 2, json!({ "type": "length" }));
        event["meta_info"]["output_token_sampling_logprobs"] = logprobs;
        event["meta_info"]["output_token_sampling_mask"] = masks;
        event
    }

    #[test]
    fn logprobs_are_those_among_what_top_k_and_top_p_left() {
        let masks = json!([[4], [3, 6]]);
        let read = |logprobs: Value, masks: &Value| {
            SglangReader::new(&truncated()).read(&left(logprobs, masks.clone()).to_string(), 0).map(Option::unwrap)
        };
        let sampled = read(json!([0.0, -0.7]), &masks).unwrap();
        assert_eq!(sampled.tokens[1].logprob, Some(-0.7));
        assert!(sampled.tokens[1].alternatives.is_empty());
        let each = read(json!([[0.0], [-0.6, -0.8]]), &masks).unwrap();
        assert_eq!((each.tokens[0].logprob, each.tokens[1].logprob), (Some(0.0), Some(-0.8)));
        assert_eq!(each.tokens[1].alternatives[..], [(3, -0.6), (6, -0.8)]);
        let unknown = read(json!([null, [-0.6, -0.8]]), &json!([[4], [3, 5]])).unwrap();
        assert_eq!((unknown.tokens[0].logprob, unknown.tokens[1].logprob), (None, None));
        let incomplete = read(json!([0.0]), &masks).unwrap_err();
        assert_eq!(incomplete, AnswerFault::CountsDiffer { tokens: 2, logprobs: 1 });
        let older =
            SglangReader::new(&truncated()).read(&event(&[(4, -1.0)], 1, Value::Null).to_string(), 0).unwrap_err();
        assert_eq!(older, AnswerFault::CountsDiffer { tokens: 1, logprobs: 0 });
    }

    #[test]
    fn tokens_are_of_unknown_weights_where_the_label_changes() {
        let of = |version: &str, tokens: &[(i64, f64)]| {
            let mut event = event(tokens, tokens.len(), Value::Null);
            event["meta_info"]["weight_version"] = json!(version);
            event
        };
        let all = [(4, -1.0), (6, -2.0), (3, -0.5), (4, -0.5)];
        let pieces = read_all(&[of("v3", &all[..1]), of("v4", &all[..3]), of("v4", &all)]).unwrap();
        let versions: Vec<_> =
            pieces.iter().flat_map(|piece| &piece.tokens).map(|token| token.weights_version).collect();
        assert_eq!(versions, [weights_version("3"), None, None, weights_version("4")]);
    }

    #[test]
    fn every_fault_is_named() {
        let one = || event(&[(4, -1.0)], 1, Value::Null);
        let fault = |events: &[Value]| read_all(events).unwrap_err();
        let without = |field: &str| {
            let mut event = one();
            event.as_object_mut().unwrap().remove(field);
            event
        };
        assert_eq!(fault(&[without("output_ids")]), AnswerFault::NoTokenIds);
        let mut unlogged = one();
        unlogged["meta_info"]["output_token_logprobs"] = json!([]);
        assert_eq!(fault(&[unlogged]), AnswerFault::CountsDiffer { tokens: 1, logprobs: 0 });
        let mut other = one();
        other["output_ids"] = json!([5]);
        assert!(matches!(fault(&[other]), AnswerFault::TokensDiffer { position: 0, .. }));
        let rewritten = event(&[(5, -1.0), (6, -1.0)], 2, Value::Null);
        assert!(matches!(fault(&[one(), rewritten]), AnswerFault::TokensDiffer { position: 0, .. }));
        let mut cut = one();
        cut["meta_info"]["prompt_tokens"] = json!(2);
        assert_eq!(fault(&[cut]), AnswerFault::PromptDiffers);
        let lost = event(&[(6, -1.0)], 3, Value::Null);
        assert_eq!(fault(&[one(), lost]), AnswerFault::CountsDiffer { tokens: 3, logprobs: 2 });
        let aborted = event(&[], 0, json!({ "type": "abort", "message": "flushed", "status_code": 503 }));
        assert_eq!(fault(&[aborted]), AnswerFault::HostError { message: "flushed".into() });
        let refused = event(&[], 0, json!({ "type": "abort", "message": "too long", "status_code": 400 }));
        assert_eq!(fault(&[refused]), AnswerFault::Refused { message: "too long".into() });
        assert_eq!(fault(&[json!({ "error": { "message": "no" } })]), AnswerFault::HostError { message: "no".into() });
        let done = SglangReader::new(&request()).read("[DONE]", 1);
        assert!(matches!(done, Err(AnswerFault::BrokenOff { .. })));
    }

    #[test]
    fn a_request_that_is_refused_in_words_alone_is_no_failure_of_the_host() {
        let error = |message: &str| json!({ "error": { "message": message } });
        let fault = |events: &[Value]| read_all(events).unwrap_err();
        for message in [
            "The input (70 tokens) is longer than the model's context length (64 tokens).",
            "Requested token count exceeds the model's maximum context length of 64 tokens.",
            "repetition_penalty must be in (0, 2], got 3.0.",
        ] {
            assert_eq!(fault(&[error(message)]), AnswerFault::Refused { message: message.into() });
            let started = event(&[(4, -1.0)], 1, Value::Null);
            assert_eq!(fault(&[started, error(message)]), AnswerFault::HostError { message: message.into() });
            let coded = json!({ "error": { "message": message, "code": 500 } });
            assert_eq!(fault(&[coded]), AnswerFault::HostError { message: message.into() });
        }
        let lost = "The following requested LoRA adapters are not loaded: {'a'}";
        assert_eq!(fault(&[error(lost)]), AnswerFault::HostError { message: lost.into() });
    }
}
