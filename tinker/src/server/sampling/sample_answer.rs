use crate::wire::protobuf::{SampleResponse, SampledSequence, StopReason, TopkLogprobs};
use crate::wire::{JsonSampleResponse, JsonSampledSequence};
use fulgurite_backends::{BackendError, SampleEvent, SampleStream, SampledToken, SamplingEnd};

/// Everything that one stream gives.
#[derive(Debug, PartialEq)]
pub(crate) struct Collected {
    pub(crate) sequence: SampledSequence,
    /// The prompt's tokens that were in the cache; 0 from a host that does not say it.
    pub(crate) cached_tokens: usize,
}

/// Takes a stream to its end. `alternatives` are requested at each token.
pub(crate) async fn collect(mut stream: SampleStream, alternatives: usize) -> Result<Collected, BackendError> {
    let mut tokens: Vec<SampledToken> = Vec::new();
    let mut cached_tokens = 0;
    let reason = loop {
        match stream.next().await? {
            SampleEvent::Token(token) => tokens.push(token),
            SampleEvent::CachedPrompt(cached) => cached_tokens = cached,
            SampleEvent::WeightsVersions(_) => {}
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
    Ok(Collected { sequence, cached_tokens })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_is_collected_with_what_of_its_prompt_was_cached() {
        let token = SampledToken { id: 7, logprob: -0.5, weights_version: None, top_logprobs: Vec::new() };
        for (cached, expected) in [(Some(SampleEvent::CachedPrompt(48)), 48), (None, 0)] {
            let (sender, stream) = SampleStream::channel();
            let events =
                [Some(SampleEvent::Token(token.clone())), cached, Some(SampleEvent::Finished(SamplingEnd::Length))];
            events.into_iter().flatten().for_each(|event| sender.send(Ok(event)).unwrap());
            let sequence = SampledSequence::new(StopReason::Length, &[7], &[-0.5]);
            let collected = collect(stream, 0).await.unwrap();
            assert_eq!(collected, Collected { sequence, cached_tokens: expected });
        }
    }
}
