use super::event::{Event, ids, stop_reason};
use crate::remote::answer::{Piece, PieceToken};
use crate::remote::answer_stream::ReadEvent;
use crate::remote::json_reader::{Elements, JsonReader, Read};
use crate::remote::weights_label::WeightsSpan;
use crate::{AnswerFault, SamplingEnd};

/// Reads the events of `/inference/v1/generate`.
pub(super) struct GenerateReader;

#[derive(Default)]
struct Choice {
    token_ids: Option<Elements<i64>>,
    logprobs: Elements<Entry>,
    end: Option<SamplingEnd>,
    /// With the end alone.
    weight_versions: Option<Vec<WeightsSpan>>,
}

struct Entry {
    token: Logprob,
    top_logprobs: Elements<Logprob>,
}

/// An id and its logprob.
type Logprob = (i64, f64);

impl Choice {
    fn read(reader: &mut JsonReader<'_>) -> Read<Self> {
        let mut choice = Self::default();
        reader.object(|reader, name| {
            match name {
                "token_ids" => choice.token_ids = reader.optional(ids)?,
                "logprobs" => choice.logprobs = reader.optional(entries)?.unwrap_or_default(),
                "finish_reason" => choice.end = stop_reason(reader)?,
                "weight_versions" => choice.weight_versions = reader.optional(spans)?,
                _ => drop(reader.skip()?),
            }
            Ok(())
        })?;
        Ok(choice)
    }
}

fn spans(reader: &mut JsonReader<'_>) -> Read<Vec<WeightsSpan>> {
    let spans = serde_json::from_str(reader.skip()?);
    spans.map_err(|error| AnswerFault::Unreadable { message: error.to_string() })
}

fn entries(reader: &mut JsonReader<'_>) -> Read<Elements<Entry>> {
    let mut entries = None;
    reader.object(|reader, name| {
        match name {
            "content" => entries = reader.optional(|reader| reader.array(entry))?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    Ok(entries.unwrap_or_default())
}

/// An entry of the sampled token, or of one of the likeliest, which have none themselves.
fn entry(reader: &mut JsonReader<'_>) -> Read<Entry> {
    let (mut id, mut logprob, mut top_logprobs) = (None, None, Elements::new());
    reader.object(|reader, name| {
        match name {
            "token_id" => id = Some(reader.integer()?),
            "logprob" => logprob = Some(reader.number()?),
            "top_logprobs" => top_logprobs = reader.array(|reader| Ok(entry(reader)?.token))?,
            _ => drop(reader.skip()?),
        }
        Ok(())
    })?;
    let token = id.zip(logprob).ok_or_else(|| reader.lacks("a token_id with its logprob"))?;
    Ok(Entry { token, top_logprobs })
}

impl ReadEvent for GenerateReader {
    const SENDS_AFTER_END: bool = true;

    fn read(&mut self, data: &str, tokens_so_far: usize) -> Result<Option<Piece>, AnswerFault> {
        let event = Event::read(data, Choice::read)?;
        let cached = event.cached;
        let Some(choice) = event.choice else { return Ok(Piece::of_usage(cached)) };
        let ids = choice.token_ids.ok_or(AnswerFault::NoTokenIds)?;
        if choice.logprobs.len() != ids.len() {
            return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: choice.logprobs.len() });
        }
        let mut tokens = Elements::with_capacity(ids.len());
        for (index, (id, entry)) in ids.into_iter().zip(choice.logprobs).enumerate() {
            let (reported_id, logprob) = entry.token;
            if reported_id != id {
                let (one, other) = (id.to_string(), reported_id.to_string());
                return Err(AnswerFault::TokensDiffer { position: tokens_so_far + index, one, other });
            }
            let alternatives = entry.top_logprobs;
            tokens.push(PieceToken { id, logprob: Some(logprob), alternatives, weights_version: None });
        }
        let (prompt, weights, end) = (event.prompt_token_ids, choice.weight_versions, choice.end);
        Ok(Some(Piece { prompt, tokens, weights, cached, end }))
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
