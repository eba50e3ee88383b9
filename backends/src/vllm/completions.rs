use std::fmt;

use super::event::{Event, ids, stop_reason};
use crate::remote::answer::{Piece, PieceToken};
use crate::remote::answer_stream::ReadEvent;
use crate::remote::json_reader::{Elements, JsonReader, Read};
use crate::{AnswerFault, SamplingEnd};

/// Reads the events of `/v1/completions`.
pub(super) struct CompletionReader;

#[derive(Default)]
struct Choice {
    /// On the first chunk alone.
    prompt_token_ids: Option<Elements<i64>>,
    token_ids: Option<Elements<i64>>,
    logprobs: Option<Logprobs>,
    end: Option<SamplingEnd>,
}

/// Lists of one entry for each token of the chunk.
#[derive(Default)]
struct Logprobs {
    tokens: Elements<TokenName>,
    token_logprobs: Elements<Option<f64>>,
    top_logprobs: Option<Elements<Option<Alternatives>>>,
}

/// The likeliest tokens in the place of one, by name.
type Alternatives = Elements<(i64, f64)>;

/// A token as `token_id:ID`, or something else that stands in its place.
enum TokenName {
    Id(i64),
    Other(String),
}

impl TokenName {
    fn read(name: &str) -> Self {
        let id = name.strip_prefix("token_id:").and_then(|id| id.parse().ok());
        id.map_or_else(|| TokenName::Other(name.to_owned()), TokenName::Id)
    }
}

impl fmt::Display for TokenName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokenName::Id(id) => write!(formatter, "token_id:{id}"),
            TokenName::Other(name) => formatter.write_str(name),
        }
    }
}

impl Choice {
    fn read(reader: &mut JsonReader<'_>) -> Read<Self> {
        let mut choice = Self::default();
        reader.object(|reader, name| {
            match name {
                "prompt_token_ids" => choice.prompt_token_ids = reader.optional(ids)?,
                "token_ids" => choice.token_ids = reader.optional(ids)?,
                "logprobs" => choice.logprobs = reader.optional(Logprobs::read)?,
                "finish_reason" => choice.end = stop_reason(reader)?,
                _ => drop(reader.skip()?),
            }
            Ok(())
        })?;
        Ok(choice)
    }
}

impl Logprobs {
    fn read(reader: &mut JsonReader<'_>) -> Read<Self> {
        let mut logprobs = Self::default();
        let optional_number = |reader: &mut JsonReader<'_>| reader.optional(JsonReader::number);
        reader.object(|reader, name| {
            match name {
                "tokens" => logprobs.tokens = reader.array(|reader| Ok(TokenName::read(&reader.string()?)))?,
                "token_logprobs" => logprobs.token_logprobs = reader.array(optional_number)?,
                "top_logprobs" => {
                    logprobs.top_logprobs = reader.optional(|reader| reader.array(|r| r.optional(alternatives)))?;
                }
                _ => drop(reader.skip()?),
            }
            Ok(())
        })?;
        Ok(logprobs)
    }
}

fn alternatives(reader: &mut JsonReader<'_>) -> Read<Alternatives> {
    let mut found = Alternatives::new();
    reader.object(|reader, name| {
        let TokenName::Id(id) = TokenName::read(name) else {
            return Err(AnswerFault::Unreadable { message: format!("`{name}` is no token") });
        };
        found.push((id, reader.number()?));
        Ok(())
    })?;
    Ok(found)
}

impl ReadEvent for CompletionReader {
    const SENDS_AFTER_END: bool = true;

    fn read(&mut self, data: &str, tokens_so_far: usize) -> Result<Option<Piece>, AnswerFault> {
        let event = Event::read(data, Choice::read)?;
        let cached = event.cached;
        let Some(choice) = event.choice else { return Ok(Piece::of_usage(cached)) };
        let ids = choice.token_ids.ok_or(AnswerFault::NoTokenIds)?;
        let tokens = tokens(&ids, choice.logprobs, tokens_so_far)?;
        Ok(Some(Piece { prompt: choice.prompt_token_ids, tokens, weights: None, cached, end: choice.end }))
    }
}

fn tokens(ids: &[i64], logprobs: Option<Logprobs>, tokens_so_far: usize) -> Result<Elements<PieceToken>, AnswerFault> {
    let Some(Logprobs { tokens: names, token_logprobs, top_logprobs }) = logprobs else {
        return match ids.first() {
            Some(&token) => Err(AnswerFault::NoLogprob { token }),
            None => Ok(Elements::new()),
        };
    };
    let top_logprobs = top_logprobs.unwrap_or_else(|| ids.iter().map(|_| None).collect());
    for length in [names.len(), token_logprobs.len(), top_logprobs.len()] {
        if length != ids.len() {
            return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: length });
        }
    }
    let mut tokens = Elements::with_capacity(ids.len());
    for (index, (&id, (logprob, alternatives))) in
        ids.iter().zip(token_logprobs.into_iter().zip(top_logprobs)).enumerate()
    {
        if !matches!(names[index], TokenName::Id(named) if named == id) {
            let (one, other) = (id.to_string(), names[index].to_string());
            return Err(AnswerFault::TokensDiffer { position: tokens_so_far + index, one, other });
        }
        let alternatives = alternatives.unwrap_or_default();
        tokens.push(PieceToken { id, logprob, alternatives, weights_version: None });
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::SamplingEnd;

    fn chunk() -> Value {
        json!({ "id": "cmpl-1", "choices": [{
            "index": 0, "text": " is", "finish_reason": null, "stop_reason": null,
            "prompt_token_ids": [5, 6, 7], "token_ids": [273],
            "logprobs": {
                "text_offset": [0], "token_logprobs": [-4.5], "tokens": ["token_id:273"],
                "top_logprobs": [{ "token_id:273": -4.5, "token_id:268": -2.0 }],
            },
        }] })
    }

    fn read(chunk: &Value) -> Result<Option<Piece>, AnswerFault> {
        CompletionReader.read(&chunk.to_string(), 4)
    }

    #[test]
    fn a_chunk_is_its_tokens() {
        let piece = read(&chunk()).unwrap().unwrap();
        assert_eq!((piece.prompt.as_deref(), piece.end), (Some(&[5, 6, 7][..]), None));
        let [token] = &piece.tokens[..] else { panic!("{:?}", piece.tokens) };
        assert_eq!((token.id, token.logprob), (273, Some(-4.5)));
        assert_eq!(token.alternatives[..], [(273, -4.5), (268, -2.0)]);
    }

    #[test]
    fn an_end_is_said_why() {
        for (reason, end) in [("stop", SamplingEnd::StopToken), ("length", SamplingEnd::Length)] {
            let mut last = chunk();
            last["choices"][0]["finish_reason"] = json!(reason);
            assert_eq!(read(&last).unwrap().unwrap().end, Some(end));
        }
    }

    #[test]
    fn usage_is_left_out_and_every_fault_is_named() {
        assert!(read(&json!({ "choices": [], "usage": { "prompt_tokens": 3 } })).unwrap().is_none());
        let cached = json!({ "prompt_tokens": 3, "prompt_tokens_details": { "cached_tokens": 2 } });
        assert_eq!(read(&json!({ "choices": [], "usage": cached })).unwrap().unwrap().cached, Some(2));
        let with = |pointer: &str, value: Value| {
            let mut chunk = chunk();
            *chunk.pointer_mut(pointer).unwrap() = value;
            read(&chunk).unwrap_err()
        };
        assert_eq!(with("/choices/0/token_ids", Value::Null), AnswerFault::NoTokenIds);
        assert_eq!(with("/choices/0/logprobs", Value::Null), AnswerFault::NoLogprob { token: 273 });
        let differ = AnswerFault::CountsDiffer { tokens: 2, logprobs: 1 };
        assert_eq!(with("/choices/0/token_ids", json!([273, 1])), differ);
        assert_eq!(
            with("/choices/0/token_ids", json!([274])),
            AnswerFault::TokensDiffer { position: 4, one: "274".into(), other: "token_id:273".into() }
        );
        let aborted = AnswerFault::UnknownEnd { reason: "abort".into() };
        assert_eq!(with("/choices/0/finish_reason", json!("abort")), aborted);
        assert!(matches!(with("/choices", json!(7)), AnswerFault::Unreadable { .. }));
        assert!(matches!(
            with("/choices/0/logprobs/top_logprobs/0", json!({ " is": -2.0 })),
            AnswerFault::Unreadable { .. }
        ));
        let expected = AnswerFault::HostError { message: "CUDA is gone".into() };
        assert_eq!(read(&json!({ "error": { "message": "CUDA is gone", "code": 500 } })).unwrap_err(), expected);
        assert!(matches!(CompletionReader.read("<html>", 0), Err(AnswerFault::Unreadable { .. })));
        assert!(matches!(CompletionReader.read("[DONE]", 0), Err(AnswerFault::BrokenOff { .. })));
    }
}
