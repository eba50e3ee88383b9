use serde::Deserialize;
use serde_json::{Map, Value};

use super::event::{Event, stop_reason};
use crate::AnswerFault;
use crate::remote::answer::{Piece, PieceToken};
use crate::remote::pump::ReadEvent;

/// Reads the events of `/v1/completions`.
pub(super) struct CompletionReader;

#[derive(Deserialize)]
struct Choice {
    /// On the first chunk alone.
    prompt_token_ids: Option<Vec<i64>>,
    token_ids: Option<Vec<i64>>,
    logprobs: Option<Logprobs>,
    finish_reason: Option<String>,
}

/// Lists of one entry for each token of the chunk. A token is `token_id:ID`.
#[derive(Deserialize)]
struct Logprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
    top_logprobs: Option<Vec<Option<Map<String, Value>>>>,
}

impl ReadEvent for CompletionReader {
    fn read(&mut self, data: &str, taken: usize) -> Result<Option<Piece>, AnswerFault> {
        let Some(choice) = Event::<Choice>::read(data)?.choice() else { return Ok(None) };
        let ids = choice.token_ids.ok_or(AnswerFault::NoTokenIds)?;
        Ok(Some(Piece {
            prompt: choice.prompt_token_ids,
            tokens: tokens(&ids, choice.logprobs, taken)?,
            weights: None,
            end: stop_reason(choice.finish_reason)?,
        }))
    }
}

fn tokens(ids: &[i64], logprobs: Option<Logprobs>, taken: usize) -> Result<Vec<PieceToken>, AnswerFault> {
    let Some(Logprobs { tokens: names, token_logprobs, top_logprobs }) = logprobs else {
        return match ids.first() {
            Some(&token) => Err(AnswerFault::NoLogprob { token }),
            None => Ok(Vec::new()),
        };
    };
    let top_logprobs = top_logprobs.unwrap_or_else(|| vec![None; ids.len()]);
    for length in [names.len(), token_logprobs.len(), top_logprobs.len()] {
        if length != ids.len() {
            return Err(AnswerFault::CountsDiffer { tokens: ids.len(), logprobs: length });
        }
    }
    let mut tokens = Vec::with_capacity(ids.len());
    for (index, (&id, (logprob, alternatives))) in
        ids.iter().zip(token_logprobs.into_iter().zip(top_logprobs)).enumerate()
    {
        if token_id(&names[index]) != Some(id) {
            let (one, other) = (id.to_string(), names[index].clone());
            return Err(AnswerFault::TokensDiffer { position: taken + index, one, other });
        }
        let alternatives = alternatives.into_iter().flatten().map(alternative).collect::<Result<_, _>>()?;
        tokens.push(PieceToken { id, logprob, alternatives, weights_version: None });
    }
    Ok(tokens)
}

fn alternative((name, logprob): (String, Value)) -> Result<(i64, f64), AnswerFault> {
    let message = || format!("`{name}: {logprob}` is no token with its logprob");
    match (token_id(&name), logprob.as_f64()) {
        (Some(id), Some(logprob)) => Ok((id, logprob)),
        _ => Err(AnswerFault::Unreadable { message: message() }),
    }
}

fn token_id(name: &str) -> Option<i64> {
    name.strip_prefix("token_id:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::StopReason;

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
        assert_eq!((piece.prompt, piece.end), (Some(vec![5, 6, 7]), None));
        let [token] = &piece.tokens[..] else { panic!("{:?}", piece.tokens) };
        assert_eq!((token.id, token.logprob), (273, Some(-4.5)));
        assert_eq!(token.alternatives, [(273, -4.5), (268, -2.0)]);
    }

    #[test]
    fn an_end_is_said_why() {
        for (reason, end) in [("stop", StopReason::StopToken), ("length", StopReason::Length)] {
            let mut last = chunk();
            last["choices"][0]["finish_reason"] = json!(reason);
            assert_eq!(read(&last).unwrap().unwrap().end, Some(end));
        }
    }

    #[test]
    fn usage_is_left_out_and_every_fault_is_named() {
        assert!(read(&json!({ "choices": [], "usage": { "prompt_tokens": 3 } })).unwrap().is_none());
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
        let said = AnswerFault::HostError { message: "CUDA is gone".into() };
        assert_eq!(read(&json!({ "error": { "message": "CUDA is gone", "code": 500 } })).unwrap_err(), said);
        assert!(matches!(CompletionReader.read("<html>", 0), Err(AnswerFault::Unreadable { .. })));
        assert!(matches!(CompletionReader.read("[DONE]", 0), Err(AnswerFault::BrokenOff { .. })));
    }
}
