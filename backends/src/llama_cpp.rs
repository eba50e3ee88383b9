use async_trait::async_trait;
use fulgurite_types::Constraint;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::remote::answer::{Answer, Elements, EndsAt, Piece, PieceToken};
use crate::remote::answer_stream::ReadEvent;
use crate::remote::http::error_words::fault_of_error;
use crate::remote::sampler::{Remote, RemoteSampler, Wire};
use crate::remote::serving::Serving;
use crate::{AnswerFault, BackendError, Capabilities, SampleRequest, SampleStream, SamplerInfo, SamplingEnd};

/// llama.cpp's own server by its `/completion`: tokens in, tokens and logprobs out.
///
/// Probabilities are requested after the samplers (`post_sampling_probs`), so that they are those of what was sampled
/// from. Under a schema they are not: a token that is sampled without it and fits is reported with its probability
/// without it, though another would have been sampled again. So schemas are refused, except at temperature 0.
///
/// It stops at the model's own end of a text and at strings; the request's stop tokens are watched for here, and end
/// the request. Its penalties count the prompt too, so they are not offered; nor are Lark grammars. It does not report
/// which weights it has. While a character is incomplete, the server keeps its tokens to itself and tells their number
/// alone: there an answer is broken, by name, since what follows is not known to follow what came before.
pub type LlamaCppSampler = RemoteSampler<LlamaCpp>;

/// The wire of llama.cpp's server.
#[derive(Debug)]
pub struct LlamaCpp;

/// What was found out about a server.
#[derive(Clone, Debug)]
pub struct LlamaCppServer {
    context_length: usize,
}

/// No limit is documented; it is that of OpenAI's API.
const GREATEST_TOP_LOGPROBS: usize = 20;

#[async_trait]
impl Wire for LlamaCpp {
    type Server = LlamaCppServer;

    async fn look(remote: &Remote) -> Result<LlamaCppServer, BackendError> {
        let properties = remote.host.get("props").await?;
        let context_length = properties["default_generation_settings"]["n_ctx"].as_u64();
        let unknown = || remote.unusable("GET /props does not tell default_generation_settings.n_ctx");
        Ok(LlamaCppServer { context_length: context_length.ok_or_else(unknown)? as usize })
    }

    fn info(remote: &Remote, server: &LlamaCppServer) -> SamplerInfo {
        SamplerInfo {
            context_length: server.context_length,
            vocabulary_size: remote.vocabulary_size,
            capabilities: Capabilities {
                penalties: false,
                logit_bias: true,
                stop_sequences: false,
                json_schema: true,
                lark: false,
                top_logprobs: GREATEST_TOP_LOGPROBS,
            },
        }
    }

    async fn unfaithful(
        _: &Remote,
        _: &LlamaCppServer,
        request: &SampleRequest,
    ) -> Result<Option<String>, BackendError> {
        let why = "llama.cpp's server tells those without the response format for tokens that happen to fit it; leave it \
                   out, or set temperature to 0";
        Ok(request.sampling.constraint.is_some().then(|| why.to_owned()))
    }

    async fn start_sampling(
        remote: &Remote,
        server: &LlamaCppServer,
        request: &SampleRequest,
        _: &Serving,
    ) -> Result<SampleStream, BackendError> {
        let answer = Answer::new(request, remote.vocabulary_size, EndsAt::HostsEnd);
        let reader = LlamaCppReader { prompt_tokens: request.prompt.len(), context_length: server.context_length };
        remote.stream("completion", &body(request), answer, reader).await
    }
}

/// A request. The server's defaults change the distribution, and may be set where it is started, so that each of them
/// is written out. Probabilities of what is sampled on another device are not always reported.
fn body(request: &SampleRequest) -> Value {
    let sampling = &request.sampling;
    let mut fields = Map::new();
    let mut set = |field: &str, value: Value| fields.insert(field.to_owned(), value);
    set("prompt", json!(request.prompt));
    set("n_predict", json!(request.max_tokens));
    set("stream", json!(true));
    set("return_tokens", json!(true));
    set("n_probs", json!(request.top_logprobs.max(1)));
    set("post_sampling_probs", json!(true));
    set("cache_prompt", json!(true));
    set("seed", json!(seed(request.seed)));
    // As elsewhere, top-k and top-p choose from the distribution that temperature has changed.
    set("samplers", json!(["temperature", "top_k", "top_p"]));
    set("temperature", json!(sampling.temperature));
    set("top_p", json!(sampling.top_p));
    set("top_k", json!(sampling.top_k.unwrap_or(0)));
    for field in ["dynatemp_range", "mirostat", "repeat_last_n", "min_keep"] {
        set(field, json!(0));
    }
    for field in ["ignore_eos", "backend_sampling"] {
        set(field, json!(false));
    }
    set("stop", json!([]));
    set("logit_bias", json!(sampling.logit_bias.iter().collect::<Vec<_>>()));
    if let Some(Constraint::JsonSchema(schema)) = &sampling.constraint {
        set("json_schema", schema.clone());
    }
    Value::Object(fields)
}

/// A seed is a u32 there, whose greatest value asks for none.
fn seed(seed: u64) -> u32 {
    (seed % u64::from(u32::MAX)) as u32
}

/// Reads one event for each token, and one for the end.
#[derive(Debug)]
struct LlamaCppReader {
    prompt_tokens: usize,
    context_length: usize,
}

#[derive(Deserialize)]
struct LlamaCppEvent {
    tokens: Option<Vec<i64>>,
    #[serde(default)]
    stop: bool,
    #[serde(default)]
    completion_probabilities: Vec<Probability>,
    stop_type: Option<String>,
    /// Tokens sampled so far, those that were kept back among them.
    tokens_predicted: Option<usize>,
    /// Tokens of the prompt.
    tokens_evaluated: Option<usize>,
    /// With the end alone.
    #[serde(default)]
    truncated: bool,
    /// With the end alone.
    timings: Option<Timings>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Timings {
    /// Tokens of the prompt that were in the cache.
    cache_n: Option<usize>,
}

#[derive(Deserialize)]
struct Probability {
    id: i64,
    prob: f64,
    #[serde(default)]
    top_probs: Vec<Probability>,
}

impl ReadEvent for LlamaCppReader {
    fn read(&mut self, data: &str, tokens_so_far: usize) -> Result<Option<Piece>, AnswerFault> {
        let event: LlamaCppEvent =
            serde_json::from_str(data).map_err(|error| AnswerFault::Unreadable { message: error.to_string() })?;
        if let Some(error) = event.error {
            return Err(fault_of_error(&error));
        }
        let Self { prompt_tokens, context_length } = *self;
        if event.tokens_evaluated.is_some_and(|evaluated| evaluated != prompt_tokens) {
            return Err(AnswerFault::PromptDiffers);
        }
        if event.stop {
            check_token_count(&event, tokens_so_far)?;
            // Once the context is full it either ends there, or drops the oldest tokens to make room, and what follows is
            // sampled after another prompt.
            if event.truncated && prompt_tokens + tokens_so_far > context_length {
                return Err(AnswerFault::PromptDiffers);
            }
            let cached = event.timings.as_ref().and_then(|timings| timings.cache_n);
            return Ok(Some(Piece { end: Some(end(&event)?), cached, ..Piece::default() }));
        }
        let ids = event.tokens.as_ref().ok_or(AnswerFault::NoTokenIds)?;
        check_token_count(&event, tokens_so_far + ids.len())?;
        let probabilities = event.completion_probabilities;
        if ids.len() != probabilities.len() {
            return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: probabilities.len() });
        }
        let mut tokens = Elements::with_capacity(ids.len());
        for (&id, chosen) in ids.iter().zip(probabilities) {
            if chosen.id != id {
                let (one, other) = (id.to_string(), chosen.id.to_string());
                return Err(AnswerFault::TokensDiffer { position: tokens_so_far + tokens.len(), one, other });
            }
            tokens.push(PieceToken {
                id,
                logprob: Some(chosen.prob.ln()),
                alternatives: chosen.top_probs.iter().map(|top| (top.id, top.prob.ln())).collect(),
                weights_version: None,
            });
        }
        Ok(Some(Piece { tokens, ..Piece::default() }))
    }
}

/// Fails where more tokens were sampled than this event and those before it have reported.
fn check_token_count(event: &LlamaCppEvent, reported: usize) -> Result<(), AnswerFault> {
    match event.tokens_predicted {
        Some(sampled) if sampled != reported => Err(AnswerFault::TokensUnreported { sampled, reported }),
        _ => Ok(()),
    }
}

/// Why an answer ended.
fn end(event: &LlamaCppEvent) -> Result<SamplingEnd, AnswerFault> {
    match event.stop_type.as_deref() {
        Some("eos") => Ok(SamplingEnd::StopToken),
        Some("limit") => Ok(SamplingEnd::Length),
        other => Err(AnswerFault::UnknownEnd { reason: other.unwrap_or("none").to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use fulgurite_types::SamplingParameters;

    use super::*;

    fn token(id: i64, probability: f64) -> Value {
        let tops = json!([{ "id": 3, "token": "x", "prob": 0.5 }]);
        let chosen = json!({ "id": id, "token": "?", "prob": probability, "top_probs": tops });
        json!({ "content": "?", "tokens": [id], "stop": false, "completion_probabilities": [chosen] })
    }

    fn last(stop_type: &str, tokens: usize) -> Value {
        json!({ "content": "", "tokens": [], "stop": true, "stop_type": stop_type, "tokens_predicted": tokens,
                "tokens_evaluated": 2, "truncated": false })
    }

    fn read(event: &Value, tokens_so_far: usize) -> Result<Piece, AnswerFault> {
        let mut reader = LlamaCppReader { prompt_tokens: 2, context_length: 5 };
        Ok(reader.read(&event.to_string(), tokens_so_far)?.unwrap())
    }

    #[test]
    fn a_token_has_the_logarithm_of_its_probability() {
        let piece = read(&token(4, 0.25), 0).unwrap();
        assert_eq!((piece.tokens[0].id, piece.tokens[0].logprob), (4, Some(0.25f64.ln())));
        assert_eq!(piece.tokens[0].alternatives[..], [(3, 0.5f64.ln())]);
    }

    #[test]
    fn the_end_is_said_why_and_counts_the_tokens() {
        assert_eq!(read(&last("eos", 1), 1).unwrap().end, Some(SamplingEnd::StopToken));
        assert_eq!(read(&last("limit", 1), 1).unwrap().end, Some(SamplingEnd::Length));
        let fault = |event: &Value| read(event, 1).unwrap_err();
        assert_eq!(fault(&last("word", 1)), AnswerFault::UnknownEnd { reason: "word".into() });
        let mut cached = last("limit", 1);
        cached["timings"] = json!({ "cache_n": 1, "prompt_n": 1 });
        assert_eq!(read(&cached, 1).unwrap().cached, Some(1));
    }

    #[test]
    fn an_answer_that_fills_the_context_is_whole_and_one_that_goes_on_is_not() {
        let truncated = |tokens: usize| {
            let mut last = last("limit", tokens);
            last["truncated"] = json!(true);
            read(&last, tokens).map(|piece| piece.end)
        };
        assert_eq!(truncated(3), Ok(Some(SamplingEnd::Length)));
        assert_eq!(truncated(4), Err(AnswerFault::PromptDiffers), "the oldest tokens were dropped");
        let mut other = last("limit", 1);
        other["tokens_evaluated"] = json!(3);
        assert_eq!(read(&other, 1).unwrap_err(), AnswerFault::PromptDiffers);
    }

    #[test]
    fn an_answer_is_broken_where_tokens_were_kept_back_and_not_only_at_its_end() {
        let mut behind = token(4, 0.25);
        behind["tokens_predicted"] = json!(2);
        assert_eq!(read(&behind, 1).unwrap().tokens.len(), 1);
        assert_eq!(read(&behind, 0).unwrap_err(), AnswerFault::TokensUnreported { sampled: 2, reported: 1 });
        assert_eq!(read(&last("limit", 3), 1).unwrap_err(), AnswerFault::TokensUnreported { sampled: 3, reported: 1 });
    }

    #[test]
    fn every_fault_is_named() {
        let with = |field: &str, value: Value| {
            let mut event = token(4, 0.25);
            event[field] = value;
            read(&event, 0).unwrap_err()
        };
        assert_eq!(with("tokens", Value::Null), AnswerFault::NoTokenIds);
        let differ = AnswerFault::CountsDiffer { tokens: 1, logprobs: 0 };
        assert_eq!(with("completion_probabilities", json!([])), differ);
        assert!(matches!(with("tokens", json!([5])), AnswerFault::TokensDiffer { .. }));
        let error = json!({ "message": "slot is gone", "code": 500 });
        assert_eq!(with("error", error), AnswerFault::HostError { message: "slot is gone".into() });
    }

    #[test]
    fn nothing_is_left_to_the_servers_defaults() {
        let request = SampleRequest {
            sampling: SamplingParameters {
                top_k: Some(5),
                logit_bias: [(7, 1.5)].into(),
                constraint: Some(Constraint::JsonSchema(json!({ "type": "null" }))),
                ..SamplingParameters::default()
            },
            stop_tokens: vec![9],
            ..SampleRequest::new(vec![1, 2], 3, u64::from(u32::MAX))
        };
        assert_eq!(
            body(&request),
            json!({
                "prompt": [1, 2], "n_predict": 3, "stream": true, "return_tokens": true, "n_probs": 1,
                "post_sampling_probs": true, "cache_prompt": true, "seed": 0,
                "samplers": ["temperature", "top_k", "top_p"], "temperature": 1.0, "top_p": 1.0, "top_k": 5,
                "dynatemp_range": 0, "mirostat": 0, "repeat_last_n": 0, "min_keep": 0, "ignore_eos": false,
                "backend_sampling": false, "stop": [], "logit_bias": [[7, 1.5]],
                "json_schema": { "type": "null" },
            })
        );
    }
}
