use crate::wire::protobuf::{SampleResponse, SampledSequence, StopReason, TopkLogprobs};
use crate::wire::{JsonSampleResponse, JsonSampledSequence};
use fulgurite_backends::{BackendError, SampleEvent, SampleStream, SampledToken, SamplingEnd};

/// Everything that one stream gives. `alternatives` are requested at each token.
pub(crate) async fn collect(mut stream: SampleStream, alternatives: usize) -> Result<SampledSequence, BackendError> {
    let mut tokens: Vec<SampledToken> = Vec::new();
    let reason = loop {
        match stream.next().await? {
            SampleEvent::Token(token) => tokens.push(token),
            SampleEvent::WeightsVersions(_) | SampleEvent::CachedPrompt(_) => {}
            SampleEvent::Finished(SamplingEnd::StopToken) => break StopReason::Stop,
            SampleEvent::Finished(SamplingEnd::Length) => break StopReason::Length,
        }
    };
    let ids: Vec<u32> = tokens.iter().map(|token| token.id).collect();
    let logprobs: Vec<f32> = tokens.iter().map(|token| token.logprob).collect();
    let mut sequence = SampledSequence::new(reason, &ids, &logprobs);
    if alternatives > 0 {
        let rows: Vec<_> = tokens.into_iter().map(|token| token.top_logprobs).collect();
        sequence.topk_sampled_logprobs = Some(TopkLogprobs::new(&rows, alternatives));
    }
    Ok(sequence)
}

/// The answer in JSON, for SDKs that know no other.
pub(crate) fn json_response(response: &SampleResponse) -> Result<JsonSampleResponse, String> {
    let text = |error: crate::wire::WireError| error.to_string();
    let sequence = |sequence: &SampledSequence| {
        let is_length = sequence.stop_reason == i32::from(StopReason::Length);
        Ok(JsonSampledSequence {
            stop_reason: if is_length { "length" } else { "stop" }.to_owned(),
            tokens: sequence.token_ids().map_err(text)?.into_iter().map(|token| token as u32).collect(),
            logprobs: sequence.token_logprobs().map_err(text)?,
        })
    };
    let floats = |bytes: &Vec<u8>| {
        let (quads, _) = bytes.as_chunks::<4>();
        let known = |bytes: &[u8; 4]| Some(f32::from_le_bytes(*bytes)).filter(|logprob| !logprob.is_nan());
        quads.iter().map(known).collect()
    };
    Ok(JsonSampleResponse {
        sequences: response.sequences.iter().map(sequence).collect::<Result<_, String>>()?,
        prompt_logprobs: response.prompt_logprobs.as_ref().map(floats),
    })
}
