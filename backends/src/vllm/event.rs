use serde::Deserialize;
use serde_json::Value;

use crate::remote::answer::Elements;
use crate::remote::answer_stream::event_of;
use crate::remote::http::error_words::fault_of_error;
use crate::{AnswerFault, SamplingEnd};

/// An event of either route.
pub(super) struct VllmEvent<C> {
    /// One, or none in an event that tells usage.
    pub(super) choice: Option<C>,
    /// The prompt, where it stands beside the choice.
    pub(super) prompt_token_ids: Option<Elements<i64>>,
    /// How many of the prompt's tokens the server had in its cache, if it says so.
    pub(super) cached: Option<usize>,
}

/// An event as it is sent.
#[derive(Deserialize)]
#[serde(bound = "C: Deserialize<'de>")]
struct SentEvent<C> {
    #[serde(default)]
    choices: Elements<C>,
    prompt_token_ids: Option<Elements<i64>>,
    usage: Option<Value>,
    error: Option<Value>,
}

impl<C> VllmEvent<C> {
    /// Reads an event that is no error.
    pub(super) fn read<'d>(data: &'d str) -> Result<Self, AnswerFault>
    where
        C: Deserialize<'d>,
    {
        let SentEvent { mut choices, prompt_token_ids, usage, error } = event_of(data)?;
        if let Some(error) = error {
            return Err(fault_of_error(&error));
        }
        // A server says nothing of what was cached where that is nothing.
        let cached = usage.and_then(|usage| usage["prompt_tokens_details"]["cached_tokens"].as_u64());
        let cached = cached.and_then(|cached| usize::try_from(cached).ok());
        Ok(Self { choice: choices.pop(), prompt_token_ids, cached })
    }
}

/// Why an answer ended, if it did.
pub(super) fn stop_reason(reason: Option<&str>) -> Result<Option<SamplingEnd>, AnswerFault> {
    match reason {
        None => Ok(None),
        Some("stop") => Ok(Some(SamplingEnd::StopToken)),
        Some("length") => Ok(Some(SamplingEnd::Length)),
        Some(reason) => Err(AnswerFault::UnknownEnd { reason: reason.to_owned() }),
    }
}
