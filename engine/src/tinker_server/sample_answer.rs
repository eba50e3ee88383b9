use fulgurite_backends::tinker::wire::protobuf::{
    SampleResponse, SampledSequence, StopReason as WireStopReason, TopkLogprobs,
};
use fulgurite_backends::tinker::wire::{JsonSampleResponse, JsonSampledSequence, StopSequences};
use fulgurite_backends::{BackendError, SampleEvent, SampleStream, SampledToken, StopReason};

use crate::Vocabulary;

/// What ends an answer before its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stops {
    /// A sampled token of these.
    pub(super) tokens: Vec<u32>,
    /// Any of these in what the answer spells.
    texts: Vec<Vec<u8>>,
}

impl Stops {
    /// What a request asks for; `ends` are the tokens that the model ends texts with, which count unless it asks.
    pub(super) fn new(asked: Option<StopSequences>, ends: &[u32]) -> Self {
        let (tokens, texts) = match asked {
            None => (ends.to_vec(), Vec::new()),
            Some(StopSequences::Tokens(tokens)) => (tokens, Vec::new()),
            Some(StopSequences::Text(text)) => (Vec::new(), vec![text]),
            Some(StopSequences::Texts(texts)) => (Vec::new(), texts),
        };
        let texts = texts.into_iter().filter(|text| !text.is_empty()).map(String::into_bytes).collect();
        Self { tokens, texts }
    }

    /// Whether text ends where one of the texts does that its last token, of so many bytes, has a part in.
    fn end(&self, text: &[u8], last: usize) -> bool {
        self.texts.iter().any(|stop| {
            let begin = text.len().saturating_sub(last + stop.len() - 1);
            text[begin..].windows(stop.len()).any(|window| window == stop)
        })
    }
}

/// Everything that one stream gives, up to where it is to stop. `alternatives` are asked for at each token.
pub(super) async fn collect(
    mut stream: SampleStream,
    stops: &Stops,
    vocabulary: &Vocabulary,
    alternatives: usize,
) -> Result<SampledSequence, BackendError> {
    let mut tokens: Vec<SampledToken> = Vec::new();
    let mut text = Vec::new();
    let reason = loop {
        match stream.next().await? {
            SampleEvent::Token(token) => {
                let bytes = vocabulary.bytes(token.id);
                text.extend_from_slice(bytes);
                tokens.push(token);
                if stops.end(&text, bytes.len()) {
                    break WireStopReason::Stop;
                }
            }
            SampleEvent::WeightsVersions(_) => {}
            SampleEvent::Finished(StopReason::StopToken) => break WireStopReason::Stop,
            SampleEvent::Finished(StopReason::Length) => break WireStopReason::Length,
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
pub(super) fn json_response(response: &SampleResponse) -> Result<JsonSampleResponse, String> {
    let text = |error: fulgurite_backends::tinker::wire::WireError| error.to_string();
    let sequence = |sequence: &SampledSequence| {
        let is_length = sequence.stop_reason == i32::from(WireStopReason::Length);
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
    use crate::TokenText;

    fn token(id: u32) -> Result<SampleEvent, BackendError> {
        Ok(SampleEvent::Token(SampledToken { id, logprob: -0.5, weights_version: None, top_logprobs: vec![] }))
    }

    async fn collected(asked: Option<StopSequences>, ids: &[u32]) -> (Vec<i32>, i32) {
        let vocabulary: Vocabulary = ["a", "bc", "cd", ""].iter().map(|text| TokenText::Text((*text).into())).collect();
        let (sender, stream) = SampleStream::channel();
        ids.iter().for_each(|&id| sender.send(token(id)).unwrap());
        sender.send(Ok(SampleEvent::Finished(StopReason::Length))).unwrap();
        let sequence = collect(stream, &Stops::new(asked, &[3]), &vocabulary, 0).await.unwrap();
        (sequence.token_ids().unwrap(), sequence.stop_reason)
    }

    #[tokio::test]
    async fn an_answer_ends_with_the_token_that_completes_a_stop_text() {
        let texts = |texts: &[&str]| Some(StopSequences::Texts(texts.iter().map(|text| text.to_string()).collect()));
        assert_eq!(collected(None, &[0, 1, 2]).await, (vec![0, 1, 2], 1));
        assert_eq!(collected(texts(&["ab"]), &[0, 1, 2]).await, (vec![0, 1], 0));
        assert_eq!(collected(texts(&["x", "bcc"]), &[0, 1, 3, 2, 0]).await, (vec![0, 1, 3, 2], 0));
        assert_eq!(collected(texts(&["", "ad"]), &[0, 1, 2]).await, (vec![0, 1, 2], 1));
        assert_eq!(collected(Some(StopSequences::Text("c".into())), &[1, 1]).await, (vec![1], 0));
    }

    #[test]
    fn a_request_that_names_no_stops_ends_where_the_model_does() {
        assert_eq!(Stops::new(None, &[3]).tokens, [3]);
        assert_eq!(Stops::new(Some(StopSequences::Tokens(vec![])), &[3]).tokens, [0; 0]);
        assert_eq!(Stops::new(Some(StopSequences::Text("x".into())), &[3]).tokens, [0; 0]);
    }
}
