use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::event::{VllmEvent, stop_reason};
use crate::AnswerFault;
use crate::remote::answer::{Elements, Piece, PieceToken};
use crate::remote::answer_stream::ReadEvent;

/// Reads the events of `/v1/completions`.
pub(super) struct CompletionReader;

#[derive(Deserialize)]
struct Choice {
    /// On the first chunk alone.
    prompt_token_ids: Option<Elements<i64>>,
    token_ids: Option<Elements<i64>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
}

/// Lists of one entry for each token of the chunk.
#[derive(Deserialize)]
struct Logprobs {
    #[serde(default)]
    tokens: Elements<TokenName>,
    #[serde(default)]
    token_logprobs: Elements<Option<f64>>,
    top_logprobs: Option<Elements<Option<Alternatives>>>,
}

/// The likeliest tokens in the place of one, which are an object by their names.
#[derive(Default)]
struct Alternatives(Elements<(i64, f64)>);

impl<'de> Deserialize<'de> for Alternatives {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ByName;
        impl<'de> Visitor<'de> for ByName {
            type Value = Alternatives;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("logprobs by tokens")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Alternatives, M::Error> {
                let mut found = Elements::new();
                while let Some((name, logprob)) = map.next_entry::<TokenName, f64>()? {
                    let TokenName::Id(id) = name else { return Err(M::Error::custom(format!("`{name}` is no token"))) };
                    found.push((id, logprob));
                }
                Ok(Alternatives(found))
            }
        }
        deserializer.deserialize_map(ByName)
    }
}

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

impl<'de> Deserialize<'de> for TokenName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = TokenName;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a token's name")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<TokenName, E> {
                Ok(TokenName::read(name))
            }
        }
        deserializer.deserialize_str(Name)
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

impl ReadEvent for CompletionReader {
    const SENDS_AFTER_END: bool = true;

    fn read(&mut self, data: &str, tokens_so_far: usize) -> Result<Option<Piece>, AnswerFault> {
        let VllmEvent { choice, cached, .. } = VllmEvent::<Choice>::read(data)?;
        let Some(choice) = choice else { return Ok(Piece::of_usage(cached)) };
        let end = stop_reason(choice.finish_reason.as_deref())?;
        let ids = choice.token_ids.ok_or(AnswerFault::NoTokenIds)?;
        let tokens = tokens(&ids, choice.logprobs, tokens_so_far)?;
        Ok(Some(Piece { prompt: choice.prompt_token_ids, tokens, weights: None, cached, end }))
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
        let Alternatives(alternatives) = alternatives.unwrap_or_default();
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
