//! A sample request as the wire has it, and its answer as pieces that can be checked.

use crate::wire::protobuf::{SampleResponse, SampledSequence, StopReason};
use crate::wire::{self, JsonChunk, ModelInput, SamplingParams, StopSequences, WireError};
use fulgurite_backends::remote::Elements;
use fulgurite_backends::remote::{Piece, PieceToken};
use fulgurite_backends::{AnswerFault, PromptScores, SampleRequest, SamplingEnd};
use fulgurite_types::unpack_logprobs;

/// The request, at its place among the sampling session's. Of a seed as many bits count as the service takes.
pub(super) fn request(
    sampling_session_id: &str,
    place: u64,
    request: &SampleRequest,
    greatest_seed: i64,
) -> wire::SampleRequest {
    let chunks = vec![JsonChunk::EncodedText { tokens: request.prompt.clone() }];
    let sampling_params = SamplingParams {
        max_tokens: Some(request.max_tokens),
        seed: Some(request.seed as i64 & greatest_seed),
        stop: Some(StopSequences::Tokens(request.stop_tokens.clone())),
        temperature: request.sampling.temperature.into(),
        top_k: request.sampling.top_k.map_or(-1, |top_k| top_k as i64),
        top_p: request.sampling.top_p.into(),
    };
    wire::SampleRequest {
        sampling_session_id: Some(sampling_session_id.to_owned()),
        seq_id: Some(place),
        num_samples: 1,
        prompt: ModelInput { chunks },
        sampling_params,
        topk_sample_logprobs: request.top_logprobs,
        ..wire::SampleRequest::default()
    }
}

/// A request for what a service makes of a prompt, and of `alternatives` to each of its tokens. It has to ask for a token,
/// which nobody reads.
pub(super) fn scoring_request(
    sampling_session_id: &str,
    place: u64,
    prompt: &[u32],
    alternatives: usize,
) -> wire::SampleRequest {
    let chunks = vec![JsonChunk::EncodedText { tokens: prompt.to_vec() }];
    wire::SampleRequest {
        sampling_session_id: Some(sampling_session_id.to_owned()),
        seq_id: Some(place),
        num_samples: 1,
        prompt: ModelInput { chunks },
        sampling_params: SamplingParams { max_tokens: Some(1), ..SamplingParams::default() },
        prompt_logprobs: Some(true),
        topk_prompt_logprobs: alternatives,
        ..wire::SampleRequest::default()
    }
}

/// What an answer says of the prompt.
pub(super) fn prompt_scores(
    response: &SampleResponse,
    prompt: &[u32],
    alternatives: usize,
) -> Result<PromptScores, AnswerFault> {
    let packed = response.prompt_logprobs.as_deref();
    let packed = packed.ok_or_else(|| unreadable("the logprobs of the prompt did not come".to_owned()))?;
    let logprobs = unpack_logprobs(packed).unwrap_or_default();
    if logprobs.len() != prompt.len() {
        return Err(AnswerFault::CountsDiffer { tokens: prompt.len(), logprobs: logprobs.len() });
    }
    let logprobs: Vec<f32> = logprobs.into_iter().skip(1).collect();
    if let Some(place) = logprobs.iter().position(|logprob| logprob.is_nan()) {
        return Err(unreadable(format!("the logprob in place {} of the prompt did not come", place + 1)));
    }
    let mut likeliest = Vec::new();
    if alternatives > 0 {
        let rows = response.topk_prompt_logprobs.as_ref().map_or(Ok(Vec::new()), |top| top.rows());
        let rows = rows.map_err(unreadable_array)?;
        if rows.len() != prompt.len() {
            return Err(unreadable(format!(
                "a prompt of {} came with likeliest tokens for {}",
                prompt.len(),
                rows.len()
            )));
        }
        let of_token = |(token, logprob): (i32, f32)| {
            let token = u32::try_from(token).map_err(|_| unreadable(format!("{token} is no token")))?;
            Ok((token, logprob))
        };
        for row in rows.into_iter().skip(1) {
            likeliest.push(row.into_iter().map(of_token).collect::<Result<_, AnswerFault>>()?);
        }
    }
    Ok(PromptScores { logprobs, likeliest, ..PromptScores::default() })
}

/// All of an answer.
pub(super) fn piece(response: &SampleResponse, request: &SampleRequest) -> Result<Piece, AnswerFault> {
    let [sequence] = response.sequences.as_slice() else {
        return Err(unreadable(format!("{} sequences came where one was asked for", response.sequences.len())));
    };
    let ids = sequence.token_ids().map_err(unreadable_array)?;
    let logprobs = sequence.token_logprobs().map_err(unreadable_array)?.unwrap_or_default();
    if ids.len() != logprobs.len() {
        return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: logprobs.len() });
    }
    let mut alternatives = alternatives(sequence, ids.len(), request.top_logprobs)?.into_iter();
    let tokens = ids.into_iter().zip(logprobs).map(|(id, logprob)| PieceToken {
        id: id.into(),
        logprob: Some(logprob.into()),
        alternatives: alternatives.next().unwrap_or_default(),
        weights_version: None,
    });
    let end = match StopReason::try_from(sequence.stop_reason) {
        Ok(StopReason::Stop) => SamplingEnd::StopToken,
        Ok(StopReason::Length) => SamplingEnd::Length,
        Err(_) => return Err(AnswerFault::UnknownEnd { reason: sequence.stop_reason.to_string() }),
    };
    // 0 is also what a service says that tells nothing of its cache.
    let cached = usize::try_from(response.prompt_cache_hit_tokens).ok().filter(|cached| *cached > 0);
    Ok(Piece { tokens: tokens.collect(), end: Some(end), cached, ..Piece::default() })
}

/// The likeliest tokens at each position, if any were requested.
fn alternatives(
    sequence: &SampledSequence,
    tokens: usize,
    count: usize,
) -> Result<Vec<Elements<(i64, f64)>>, AnswerFault> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let rows =
        sequence.topk_sampled_logprobs.as_ref().map_or(Ok(Vec::new()), |top| top.rows()).map_err(unreadable_array)?;
    if rows.len() != tokens {
        return Err(unreadable(format!("{tokens} tokens came with likeliest tokens for {}", rows.len())));
    }
    let widen = |(token, logprob): (i32, f32)| (i64::from(token), f64::from(logprob));
    Ok(rows.into_iter().map(|row| row.into_iter().map(widen).collect()).collect())
}

fn unreadable(message: String) -> AnswerFault {
    AnswerFault::Unreadable { message }
}

fn unreadable_array(error: WireError) -> AnswerFault {
    unreadable(error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::protobuf::TopkLogprobs;

    fn sample_request() -> SampleRequest {
        SampleRequest { stop_tokens: vec![9], ..SampleRequest::new(vec![5, 6], 4, (1 << 40) + 7) }
    }

    fn response(sequence: SampledSequence) -> SampleResponse {
        SampleResponse { sequences: vec![sequence], ..SampleResponse::default() }
    }

    #[test]
    fn a_request_says_all_that_a_service_may_need() {
        let mut sent = sample_request();
        let body = serde_json::to_value(request("x", 3, &sent, i64::from(i32::MAX))).unwrap();
        assert_eq!(
            body,
            json!({
                "type": "sample", "sampling_session_id": "x", "seq_id": 3, "num_samples": 1,
                "prompt": { "chunks": [{ "type": "encoded_text", "tokens": [5, 6] }] },
                "sampling_params": { "max_tokens": 4, "seed": 7, "stop": [9], "temperature": 1.0, "top_k": -1,
                                     "top_p": 1.0 },
            })
        );
        sent.stop_tokens.clear();
        let whole = json!(request("x", 3, &sent, i64::MAX));
        assert_eq!(whole["sampling_params"]["stop"], json!([]));
        assert_eq!(whole["sampling_params"]["seed"], sent.seed);
    }

    #[test]
    fn an_answer_is_one_piece() {
        let mut sequence = SampledSequence::new(StopReason::Stop, &[5, 9], &[-0.5, -0.25]);
        sequence.topk_sampled_logprobs = Some(TopkLogprobs::new(&[vec![(5, -0.5), (6, -1.0)], vec![(9, -0.25)]], 2));
        let sent = SampleRequest { top_logprobs: 2, ..sample_request() };
        let cached = SampleResponse { prompt_cache_hit_tokens: 1, ..response(sequence.clone()) };
        assert_eq!(piece(&cached, &sent).unwrap().cached, Some(1));
        let read = piece(&response(sequence), &sent).unwrap();
        assert_eq!(read.cached, None);
        let tokens: Vec<_> =
            read.tokens.iter().map(|token| (token.id, token.logprob, token.alternatives.len())).collect();
        assert_eq!(tokens, [(5, Some(-0.5), 2), (9, Some(-0.25), 1)]);
        assert_eq!(read.end, Some(SamplingEnd::StopToken));
    }

    #[test]
    fn what_does_not_hold_together_is_named() {
        let whole = || SampledSequence::new(StopReason::Length, &[5, 6], &[-0.5, -1.0]);
        let read = |sequence| piece(&response(sequence), &sample_request()).map(drop);
        assert_eq!(read(whole()), Ok(()));
        let without = |logprobs| SampledSequence { logprobs, ..whole() };
        let differ = |logprobs| Err(AnswerFault::CountsDiffer { tokens: 2, logprobs });
        assert_eq!(read(without(None)), differ(0));
        assert_eq!(read(without(Some(vec![0; 4]))), differ(1));
        assert!(matches!(read(without(Some(vec![0; 7]))), Err(AnswerFault::Unreadable { .. })));
        let odd = SampledSequence { stop_reason: 7, ..whole() };
        assert_eq!(read(odd), Err(AnswerFault::UnknownEnd { reason: "7".into() }));
        let none = piece(&SampleResponse::default(), &sample_request());
        assert!(matches!(none, Err(AnswerFault::Unreadable { .. })));
        let sent = SampleRequest { top_logprobs: 1, ..sample_request() };
        assert!(matches!(piece(&response(whole()), &sent), Err(AnswerFault::Unreadable { .. })));
    }
}
