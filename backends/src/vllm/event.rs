use serde_json::Value;

use crate::remote::http::error_words::fault_of_error;
use crate::remote::json_reader::{Elements, JsonReader, Read};
use crate::{AnswerFault, SamplingEnd};

/// An event of either route.
pub(super) struct Event<C> {
    /// One, or none in an event that tells usage.
    pub(super) choice: Option<C>,
    /// The prompt, where it stands beside the choice.
    pub(super) prompt_token_ids: Option<Elements<i64>>,
    /// How many of the prompt's tokens the server had in its cache, if it says so.
    pub(super) cached: Option<usize>,
}

impl<C> Event<C> {
    /// Reads an event that is no error; its choice by `choice`.
    pub(super) fn read<'d>(data: &'d str, choice: impl Fn(&mut JsonReader<'d>) -> Read<C>) -> Read<Self> {
        if data == "[DONE]" {
            return Err(AnswerFault::BrokenOff { message: ": it is said to be done before it has ended".into() });
        }
        let mut event = Self { choice: None, prompt_token_ids: None, cached: None };
        let mut error = None;
        JsonReader::whole(data, |reader| {
            reader.object(|reader, name| {
                match name {
                    "choices" => event.choice = reader.array(&choice)?.pop(),
                    "prompt_token_ids" => event.prompt_token_ids = reader.optional(ids)?,
                    "usage" => event.cached = reader.optional(cached)?.flatten(),
                    "error" => error = reader.optional(JsonReader::skip)?,
                    _ => drop(reader.skip()?),
                }
                Ok(())
            })
        })?;
        match error.map(serde_json::from_str).transpose().map_err(unreadable)? {
            Some(error) => Err(fault_of_error(&error)),
            None => Ok(event),
        }
    }
}

/// Reads how much of a prompt was cached. A server says nothing of it where that is nothing.
fn cached(reader: &mut JsonReader<'_>) -> Read<Option<usize>> {
    let usage: Value = serde_json::from_str(reader.skip()?).map_err(unreadable)?;
    Ok(usage["prompt_tokens_details"]["cached_tokens"].as_u64().and_then(|cached| usize::try_from(cached).ok()))
}

fn unreadable(error: serde_json::Error) -> AnswerFault {
    AnswerFault::Unreadable { message: error.to_string() }
}

/// Reads a list of token ids.
pub(super) fn ids(reader: &mut JsonReader<'_>) -> Read<Elements<i64>> {
    reader.array(JsonReader::integer)
}

/// Reads why an answer ended, if it did.
pub(super) fn stop_reason(reader: &mut JsonReader<'_>) -> Read<Option<SamplingEnd>> {
    match reader.optional(JsonReader::string)?.as_deref() {
        None => Ok(None),
        Some("stop") => Ok(Some(SamplingEnd::StopToken)),
        Some("length") => Ok(Some(SamplingEnd::Length)),
        Some(reason) => Err(AnswerFault::UnknownEnd { reason: reason.to_owned() }),
    }
}
