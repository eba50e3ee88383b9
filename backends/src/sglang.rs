use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::remote::answer::{Answer, EndsAt, Piece, PieceToken};
use crate::remote::answer_stream::ReadEvent;
use crate::remote::host::fault_of_error;
use crate::remote::json_reader::Elements;
use crate::remote::sampler::{Remote, RemoteSampler, Wire, with_hint};
use crate::remote::sampling_fields::SamplingFields;
use crate::remote::served_models::served_model;
use crate::remote::serving::Serving;
use crate::remote::weights_label::{WeightsSpan, weights_version};
use crate::{
    AnswerFault, BackendError, Capabilities, Changeover, Constraint, SampleRequest, SampleStream, SamplerInfo,
    StopReason,
};

/// An SGLang server by its own `/generate`: tokens in, and tokens, logprobs and versions of weights out.
///
/// Made from SGLang's documentation and tried against scripts of it; a real server was not run. By it, and by the source
/// of 0.5.23, logprobs are taken after temperature, penalties, biases and constraints, but before top-k and top-p:
/// requests for these are refused, except at temperature 0, where the sampled token was certain and its logprob is 0.
/// Seeds count only where the server was started with `--enable-deterministic-inference`. What the model itself takes
/// for the end of a text also ends an answer, since SGLang's `ignore_eos` would ignore stop tokens too. Each token has
/// the version of the weights that its event tells; a server that tells them by spans at the end is believed more.
pub type SglangSampler = RemoteSampler<Sglang>;

/// SGLang's wire.
#[derive(Debug)]
pub struct Sglang;

/// What was found out about a server.
#[derive(Clone, Debug)]
pub struct SglangServer {
    context_length: usize,
}

/// No limit is documented; it is that of OpenAI's API.
const GREATEST_TOP_LOGPROBS: usize = 20;

#[async_trait]
impl Wire for Sglang {
    type Server = SglangServer;

    async fn look(remote: &Remote) -> Result<SglangServer, BackendError> {
        let listed = served_model(&remote.host, &remote.model).await?;
        let untold = || remote.unusable("it does not tell the model's max_model_len");
        Ok(SglangServer { context_length: listed.max_model_len.ok_or_else(untold)? })
    }

    fn info(remote: &Remote, server: &SglangServer) -> SamplerInfo {
        SamplerInfo {
            context_length: server.context_length,
            vocabulary_size: remote.vocabulary_size,
            capabilities: Capabilities {
                penalties: true,
                logit_bias: true,
                stop_sequences: false,
                json_schema: true,
                lark: false,
                top_logprobs: GREATEST_TOP_LOGPROBS,
            },
        }
    }

    fn unfaithful(_server: &SglangServer, request: &SampleRequest) -> Option<&'static str> {
        (request.sampling.top_p < 1.0 || request.sampling.top_k.is_some())
            .then_some("SGLang takes them before top_k and top_p; leave these out")
    }

    async fn ask(
        remote: &Remote,
        server: &SglangServer,
        request: &SampleRequest,
        serving: &Serving,
    ) -> Result<SampleStream, BackendError> {
        let mut body = body(request, server.context_length);
        let mut answer = Answer::new(request, remote.vocabulary_size, EndsAt::HostsEnd);
        if let Some(adapter) = &serving.adapter {
            body["lora_path"] = json!(adapter);
            // What the server tells is the version of the model below the adapter.
            answer = answer.of_weights(serving.version);
        }
        remote.stream("generate", &body, answer, SglangReader::default()).await
    }

    async fn load_model(
        remote: &Remote,
        directory: &str,
        label: &str,
        changeover: Changeover,
    ) -> Result<(), BackendError> {
        let host = &remote.host;
        let update = async {
            let body = json!({ "model_path": directory, "weight_version": label, "flush_cache": true });
            succeeded(remote, host.post("update_weights_from_disk", &[], &body).await?)
        };
        match changeover {
            Changeover::Drain => update.await?,
            Changeover::InFlight => {
                // Back to the queue, so that what is cached of their prompts is computed again.
                host.post("pause_generation", &[], &json!({ "mode": "retract" })).await?;
                let updated = update.await;
                host.post("continue_generation", &[], &json!({})).await?;
                updated?;
            }
        }
        let told = match host.get("model_info").await {
            Err(BackendError::Configuration { .. }) => host.get("get_model_info").await,
            told => told,
        }?;
        remote.confirm_weights(&told, label)
    }

    async fn load_adapter(remote: &Remote, name: &str, directory: &str) -> Result<(), BackendError> {
        let body = json!({ "lora_name": name, "lora_path": directory });
        let loaded = remote.host.post("load_lora_adapter", &[], &body).await;
        let hint = "start it with --enable-lora, --max-lora-rank and --lora-target-modules";
        succeeded(remote, loaded.map_err(|error| with_hint(error, hint))?)
    }

    async fn unload_adapter(remote: &Remote, name: &str) -> Result<(), BackendError> {
        succeeded(remote, remote.host.post("unload_lora_adapter", &[], &json!({ "lora_name": name })).await?)
    }
}

/// Failures to change weights come with status 200 too.
fn succeeded(remote: &Remote, reply: Value) -> Result<(), BackendError> {
    if reply["success"] == json!(true) {
        return Ok(());
    }
    let told = [&reply["message"], &reply["error_message"]].into_iter().find_map(Value::as_str);
    Err(remote.unusable(told.unwrap_or("it does not say that it has done what it was asked")))
}

/// A request. What a server may have other defaults for is written out.
fn body(request: &SampleRequest, context_length: usize) -> Value {
    let sampling = &request.sampling;
    let mut fields = json!(SamplingFields::of(request));
    // Null is for all the room that the server has: older ones, and those that sample speculatively, keep some of it to
    // themselves, and refuse whoever asks for the whole.
    let is_limited = request.prompt.len() + request.max_tokens < context_length;
    fields["max_new_tokens"] = json!(is_limited.then_some(request.max_tokens));
    // A positive i64 there.
    fields["sampling_seed"] = json!(request.seed & i64::MAX.cast_unsigned());
    fields["ignore_eos"] = json!(false);
    fields["skip_special_tokens"] = json!(false);
    if !sampling.logit_bias.is_empty() {
        fields["logit_bias"] = json!(sampling.logit_bias);
    }
    if let Some(Constraint::JsonSchema(schema)) = &sampling.constraint {
        fields["json_schema"] = json!(schema.to_string());
    }
    json!({
        "input_ids": request.prompt,
        "sampling_params": fields,
        "stream": true,
        "return_logprob": true,
        "logprob_start_len": -1,
        "top_logprobs_num": request.top_logprobs,
        "return_text_in_logprobs": false,
    })
}

/// Reads events that tell everything so far, or, from a server that streams increments, what is new.
#[derive(Debug, Default)]
struct SglangReader {
    last: Option<i64>,
}

#[derive(Deserialize)]
struct Event {
    output_ids: Option<Vec<i64>>,
    meta_info: Option<MetaInfo>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct MetaInfo {
    finish_reason: Option<Value>,
    /// Tokens so far, in either way of streaming.
    completion_tokens: usize,
    #[serde(default)]
    output_token_logprobs: Vec<Logprob>,
    #[serde(default)]
    output_top_logprobs: Vec<Option<Vec<Logprob>>>,
    weight_version: Option<String>,
    weight_versions: Option<Vec<WeightsSpan>>,
    cached_tokens: Option<usize>,
}

/// Logprob, id, and the text or null.
#[derive(Deserialize)]
struct Logprob(Option<f64>, i64, #[allow(dead_code)] Option<String>);

impl ReadEvent for SglangReader {
    fn read(&mut self, data: &str, taken: usize) -> Result<Option<Piece>, AnswerFault> {
        if data == "[DONE]" {
            return Err(AnswerFault::BrokenOff { message: ": it is said to be done before it has ended".into() });
        }
        let event: Event =
            serde_json::from_str(data).map_err(|error| AnswerFault::Unreadable { message: error.to_string() })?;
        if let Some(error) = event.error {
            let is_first = taken == 0 && event.meta_info.is_none();
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
        let before = self.told_before(&ids, meta.completion_tokens, taken)?;
        let version = meta.weight_version.as_deref().and_then(weights_version);
        let mut top_logprobs = meta.output_top_logprobs.into_iter().skip(before);
        let mut tokens = Elements::with_capacity(ids.len() - before);
        for (id, Logprob(logprob, told, _)) in ids.into_iter().zip(meta.output_token_logprobs).skip(before) {
            if told != id {
                let (one, other) = (id.to_string(), told.to_string());
                return Err(AnswerFault::TokensDiffer { position: taken + tokens.len(), one, other });
            }
            let tops = top_logprobs.next().flatten().unwrap_or_default();
            let alternatives = tops.iter().filter_map(|top| Some((top.1, top.0?))).collect();
            tokens.push(PieceToken { id, logprob, alternatives, weights_version: version });
            self.last = Some(id);
        }
        // Each event says it.
        let cached = end.and(meta.cached_tokens);
        Ok(Some(Piece { prompt: None, tokens, weights: meta.weight_versions, cached, end }))
    }
}

impl SglangReader {
    /// How many of an event's tokens earlier events told.
    fn told_before(&self, ids: &[i64], tokens_so_far: usize, taken: usize) -> Result<usize, AnswerFault> {
        if ids.len() == tokens_so_far && ids.len() >= taken {
            // All of them again, so that the last one that was taken is in its place.
            return match (taken.checked_sub(1).map(|last| ids[last]), self.last) {
                (Some(told), Some(last)) if told != last => {
                    let (one, other) = (last.to_string(), told.to_string());
                    Err(AnswerFault::TokensDiffer { position: taken - 1, one, other })
                }
                _ => Ok(taken),
            };
        }
        match ids.len() + taken == tokens_so_far {
            true => Ok(0),
            false => Err(AnswerFault::CountsDiffer { tokens: tokens_so_far, logprobs: taken + ids.len() }),
        }
    }
}

/// Whether an error is the request's: older servers say so in words alone, with status 200 and no code.
fn is_of_request(error: &Value, message: &str) -> bool {
    let words = ["context length", " must be in ", " must be at least "];
    error["code"].is_null() && words.iter().any(|words| message.contains(words))
}

/// Why an answer ended: `{"type": "stop" | "length" | "abort", ...}`.
fn stop_reason(reason: &Value) -> Result<StopReason, AnswerFault> {
    match reason["type"].as_str() {
        Some("stop") => Ok(StopReason::StopToken),
        Some("length") => Ok(StopReason::Length),
        Some("abort") => Err(fault_of_error(reason)),
        _ => Err(AnswerFault::UnknownEnd { reason: reason.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut reader = SglangReader::default();
        let mut taken = 0;
        let mut pieces = Vec::new();
        for event in events {
            let piece = reader.read(&event.to_string(), taken)?.unwrap();
            taken += piece.tokens.len();
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
            assert_eq!(pieces.last().unwrap().end, Some(StopReason::StopToken));
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
        assert_eq!((ids(&pieces), pieces[1].end), (vec![4], Some(StopReason::Length)));
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
        let lost = event(&[(6, -1.0)], 3, Value::Null);
        assert_eq!(fault(&[one(), lost]), AnswerFault::CountsDiffer { tokens: 3, logprobs: 2 });
        let aborted = event(&[], 0, json!({ "type": "abort", "message": "flushed", "status_code": 503 }));
        assert_eq!(fault(&[aborted]), AnswerFault::HostError { message: "flushed".into() });
        let refused = event(&[], 0, json!({ "type": "abort", "message": "too long", "status_code": 400 }));
        assert_eq!(fault(&[refused]), AnswerFault::Refused { message: "too long".into() });
        assert_eq!(fault(&[json!({ "error": { "message": "no" } })]), AnswerFault::HostError { message: "no".into() });
        let done = SglangReader::default().read("[DONE]", 1);
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
            let begun = event(&[(4, -1.0)], 1, Value::Null);
            assert_eq!(fault(&[begun, error(message)]), AnswerFault::HostError { message: message.into() });
            let coded = json!({ "error": { "message": message, "code": 500 } });
            assert_eq!(fault(&[coded]), AnswerFault::HostError { message: message.into() });
        }
        let lost = "The following requested LoRA adapters are not loaded: {'a'}";
        assert_eq!(fault(&[error(lost)]), AnswerFault::HostError { message: lost.into() });
    }

    fn request() -> SampleRequest {
        SampleRequest {
            prompt: vec![1, 2],
            max_tokens: 3,
            sampling: crate::SamplingParameters {
                logit_bias: [(7, 1.5)].into(),
                constraint: Some(Constraint::JsonSchema(json!({ "type": "null" }))),
                ..Default::default()
            },
            stop_tokens: vec![9],
            stop_sequences: vec![],
            seed: u64::MAX,
            top_logprobs: 2,
            stream_interval: 1,
            affinity: None,
        }
    }

    #[test]
    fn the_whole_room_is_not_asked_for_by_its_number() {
        let asked = |context_length| body(&request(), context_length)["sampling_params"]["max_new_tokens"].clone();
        assert_eq!((asked(6), asked(5), asked(4)), (json!(3), Value::Null, Value::Null));
    }

    #[test]
    fn nothing_is_left_to_the_servers_defaults() {
        assert_eq!(
            body(&request(), 64),
            json!({
                "input_ids": [1, 2],
                "sampling_params": {
                    "n": 1, "max_new_tokens": 3, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0,
                    "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
                    "sampling_seed": i64::MAX, "stop_token_ids": [9], "ignore_eos": false,
                    "skip_special_tokens": false, "logit_bias": { "7": 1.5 }, "json_schema": "{\"type\":\"null\"}",
                },
                "stream": true, "return_logprob": true, "logprob_start_len": -1, "top_logprobs_num": 2,
                "return_text_in_logprobs": false,
            })
        );
    }
}
