use fulgurite_backends::{SampleRequest, StopSequence};
use fulgurite_types::SamplingParameters;

use super::prompt_report::{NamedTokens, PromptReportOptions};
use crate::server::base::TinkerBase;
use crate::server::refusals::Refusal;
use crate::server::state::names::new_seed;
use crate::server::training::training_request::text_tokens;
use crate::wire::{SampleRequest as WireRequest, StopSequences as RequestedStops};

/// The greatest number of alternatives reported for a place.
const GREATEST_ALTERNATIVES: usize = 1000;

/// What ends an answer before its limit: `ends` are the tokens that the model ends texts with. A request's stops add to
/// them; only an empty list turns them off.
fn stops(requested: Option<RequestedStops>, ends: &[u32]) -> (Vec<u32>, Vec<StopSequence>) {
    let mut tokens = ends.to_vec();
    let texts = match requested {
        None => Vec::new(),
        Some(RequestedStops::Tokens(requested)) if requested.is_empty() => return (Vec::new(), Vec::new()),
        Some(RequestedStops::Texts(requested)) if requested.is_empty() => return (Vec::new(), Vec::new()),
        Some(RequestedStops::Tokens(requested)) => {
            tokens.extend(requested.into_iter().filter(|token| !ends.contains(token)));
            Vec::new()
        }
        Some(RequestedStops::Text(text)) => vec![text],
        Some(RequestedStops::Texts(texts)) => texts,
    };
    (tokens, texts.into_iter().filter(|text| !text.is_empty()).map(StopSequence::Text).collect())
}

/// Stop texts of a request, and bytes of one of them.
const GREATEST_STOPS: (usize, usize) = (64, 1024);
/// Stop tokens of a request.
const GREATEST_STOP_TOKENS: usize = 1024;

/// Refuses more and longer stops than a request may have.
fn check_stops(requested: Option<&RequestedStops>) -> Result<(), String> {
    let (count, limit, longest) = match requested {
        None => return Ok(()),
        Some(RequestedStops::Tokens(tokens)) => (tokens.len(), GREATEST_STOP_TOKENS, 0),
        Some(RequestedStops::Text(text)) => (1, GREATEST_STOPS.0, text.len()),
        Some(RequestedStops::Texts(texts)) => {
            (texts.len(), GREATEST_STOPS.0, texts.iter().map(String::len).max().unwrap_or(0))
        }
    };
    match (count > limit, longest > GREATEST_STOPS.1) {
        (true, _) => Err(format!("stop holds {count} stops, but may hold at most {limit}")),
        (_, true) => Err(format!("stop: a text has {longest} bytes, but at most {} may be", GREATEST_STOPS.1)),
        _ => Ok(()),
    }
}

fn check_counts(request: &WireRequest, most_samples: usize) -> Result<(), String> {
    if request.num_samples == 0 || request.num_samples > most_samples {
        return Err(format!("num_samples is {}, but must be from 1 to {most_samples}", request.num_samples));
    }
    for (name, value) in [
        ("topk_prompt_logprobs", request.topk_prompt_logprobs),
        ("topk_sample_logprobs", request.topk_sample_logprobs),
        ("prompt_alt_tokens_k", request.prompt_alt_tokens_k),
    ] {
        if value > GREATEST_ALTERNATIVES {
            return Err(format!("{name} is {value}, but must be at most {GREATEST_ALTERNATIVES}"));
        }
    }
    Ok(())
}

/// Reads a request, and refuses what can never be answered.
pub(crate) fn read_request(
    request: &WireRequest,
    base: &TinkerBase,
) -> Result<(SampleRequest, PromptReportOptions), Refusal> {
    let context_length = base.facts().context_length;
    let prompt = text_tokens(&request.prompt).map_err(Refusal::bad_request)?;
    check_counts(request, base.facts().queue_limit).map_err(Refusal::bad_request)?;
    let parameters = &request.sampling_params;
    let top_k = match parameters.top_k {
        -1 => None,
        top_k => match usize::try_from(top_k) {
            Ok(top_k) => Some(top_k),
            Err(_) => return Err(Refusal::bad_request(format!("top_k is {top_k}, but must be -1 or from 1 up"))),
        },
    };
    check_stops(parameters.stop.as_ref()).map_err(Refusal::bad_request)?;
    let (stop_tokens, stop_sequences) = stops(parameters.stop.clone(), &base.facts().end_tokens);
    let room = context_length.saturating_sub(prompt.len()).max(1);
    let sampling = SampleRequest {
        sampling: SamplingParameters {
            temperature: parameters.temperature as f32,
            top_p: parameters.top_p as f32,
            top_k,
            ..SamplingParameters::default()
        },
        stop_tokens,
        stop_sequences,
        top_logprobs: request.topk_sample_logprobs,
        prompt,
        max_tokens: parameters.max_tokens.unwrap_or(room),
        seed: parameters.seed.map_or_else(new_seed, |seed| seed as u64),
        stream_interval: 1,
        affinity: None,
    };
    let prompt_report = PromptReportOptions {
        logprobs: request.prompt_logprobs.unwrap_or_default(),
        last: request.prompt_logprobs_last_n,
        alternatives: request.topk_prompt_logprobs,
        draws: request.prompt_alt_tokens_k,
        named: (request.target_prompt_logprobs.as_ref())
            .map(|named| NamedTokens::read(named, sampling.prompt.len(), base.facts().vocabulary_size))
            .transpose()
            .map_err(|error| Refusal::bad_request(format!("target_prompt_logprobs: {error}")))?,
    };
    Ok((sampling, prompt_report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_text_does_not_take_the_models_own_end_away() {
        let text = |text: &str| StopSequence::Text(text.to_owned());
        assert_eq!(stops(None, &[3]), (vec![3], vec![]));
        assert_eq!(stops(Some(RequestedStops::Tokens(vec![])), &[3]), (vec![], vec![]));
        assert_eq!(stops(Some(RequestedStops::Texts(vec![])), &[3]), (vec![], vec![]));
        assert_eq!(stops(Some(RequestedStops::Tokens(vec![5, 3])), &[3]), (vec![3, 5], vec![]));
        assert_eq!(stops(Some(RequestedStops::Text(String::new())), &[3]), (vec![3], vec![]));
        assert_eq!(stops(Some(RequestedStops::Text("x".into())), &[3]), (vec![3], vec![text("x")]));
        let two = RequestedStops::Texts(vec![String::new(), "y".into()]);
        assert_eq!(stops(Some(two), &[3]), (vec![3], vec![text("y")]));
    }
}
