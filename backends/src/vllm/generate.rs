use serde::Deserialize;

use super::event::{VllmEvent, stop_reason};
use crate::AnswerFault;
use crate::remote::answer::{Elements, Piece, PieceToken};
use crate::remote::answer_stream::ReadEvent;
use crate::remote::weights_label::WeightsSpan;

/// Reads the events of `/inference/v1/generate`.
pub(super) struct GenerateReader;

#[derive(Deserialize)]
struct Choice {
    token_ids: Option<Elements<i64>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
    /// With the end alone.
    weight_versions: Option<Vec<WeightsSpan>>,
}

#[derive(Deserialize)]
struct Logprobs {
    content: Option<Elements<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    token_id: i64,
    logprob: f64,
    #[serde(default)]
    top_logprobs: Elements<Likely>,
}

/// One of the likeliest tokens in a place.
#[derive(Deserialize)]
struct Likely {
    token_id: i64,
    logprob: f64,
}

impl ReadEvent for GenerateReader {
    const SENDS_AFTER_END: bool = true;

    fn read(&mut self, data: &str, tokens_so_far: usize) -> Result<Option<Piece>, AnswerFault> {
        let VllmEvent { choice, prompt_token_ids: prompt, cached } = VllmEvent::<Choice>::read(data)?;
        let Some(choice) = choice else { return Ok(Piece::of_usage(cached)) };
        let end = stop_reason(choice.finish_reason.as_deref())?;
        let ids = choice.token_ids.ok_or(AnswerFault::NoTokenIds)?;
        let entries = choice.logprobs.and_then(|logprobs| logprobs.content).unwrap_or_default();
        if entries.len() != ids.len() {
            return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: entries.len() });
        }
        let mut tokens = Elements::with_capacity(ids.len());
        for (index, (id, entry)) in ids.into_iter().zip(entries).enumerate() {
            if entry.token_id != id {
                let (one, other) = (id.to_string(), entry.token_id.to_string());
                return Err(AnswerFault::TokensDiffer { position: tokens_so_far + index, one, other });
            }
            let alternatives = entry.top_logprobs.into_iter().map(|likely| (likely.token_id, likely.logprob)).collect();
            tokens.push(PieceToken { id, logprob: Some(entry.logprob), alternatives, weights_version: None });
        }
        Ok(Some(Piece { prompt, tokens, weights: choice.weight_versions, cached, end }))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::SamplingEnd;

    fn chunk() -> Value {
        let content = json!({ "token_id": 54, "logprob": -2.5, "rank": 3, "top_logprobs": [
            { "token_id": 54, "logprob": -2.5, "rank": 3 }, { "token_id": 164, "logprob": -1.5, "rank": 1 },
        ] });
        json!({ "request_id": "r", "prompt_token_ids": [5, 6], "usage": null, "choices": [{
            "index": 0, "finish_reason": "length", "stop_reason": null, "token_ids": [54],
            "weight_versions": [{ "version": "v7", "start": 0, "end": 1 }], "logprobs": { "content": [content] },
        }] })
    }

    fn read(chunk: &Value) -> Result<Option<Piece>, AnswerFault> {
        GenerateReader.read(&chunk.to_string(), 0)
    }

    #[test]
    fn a_chunk_is_its_tokens_and_the_last_one_tells_their_weights() {
        let piece = read(&chunk()).unwrap().unwrap();
        assert_eq!((piece.prompt.as_deref(), piece.end), (Some(&[5, 6][..]), Some(SamplingEnd::Length)));
        let [token] = &piece.tokens[..] else { panic!("{:?}", piece.tokens) };
        assert_eq!((token.id, token.logprob), (54, Some(-2.5)));
        assert_eq!(token.alternatives[..], [(54, -2.5), (164, -1.5)]);
        assert_eq!(piece.weights.map(|spans| spans.len()), Some(1));
    }

    #[test]
    fn every_fault_is_named() {
        let with = |pointer: &str, value: Value| {
            let mut chunk = chunk();
            *chunk.pointer_mut(pointer).unwrap() = value;
            read(&chunk).unwrap_err()
        };
        assert_eq!(with("/choices/0/token_ids", Value::Null), AnswerFault::NoTokenIds);
        let differ = |tokens, logprobs| AnswerFault::CountsDiffer { tokens, logprobs };
        assert_eq!(with("/choices/0/logprobs", Value::Null), differ(1, 0));
        assert_eq!(with("/choices/0/token_ids", json!([54, 1])), differ(2, 1));
        assert_eq!(
            with("/choices/0/token_ids", json!([55])),
            AnswerFault::TokensDiffer { position: 0, one: "55".into(), other: "54".into() }
        );
        let null_logprob = with("/choices/0/logprobs/content/0/logprob", Value::Null);
        assert!(matches!(null_logprob, AnswerFault::Unreadable { .. }), "{null_logprob}");
    }
}
