use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::remote::host::fault_of_error;
use crate::{AnswerFault, StopReason};

/// An event of either route.
#[derive(Deserialize)]
pub(super) struct Event<C> {
    /// One, or none in an event that tells usage.
    #[serde(default = "Vec::new")]
    choices: Vec<C>,
    /// The prompt, where it stands beside the choice.
    pub(super) prompt_token_ids: Option<Vec<i64>>,
    error: Option<Value>,
}

impl<C: DeserializeOwned> Event<C> {
    /// Reads an event that is no error.
    pub(super) fn read(data: &str) -> Result<Self, AnswerFault> {
        if data == "[DONE]" {
            return Err(AnswerFault::BrokenOff { message: ": it is said to be done before it has ended".into() });
        }
        let event: Self =
            serde_json::from_str(data).map_err(|error| AnswerFault::Unreadable { message: error.to_string() })?;
        match event.error {
            Some(error) => Err(fault_of_error(&error)),
            None => Ok(event),
        }
    }

    pub(super) fn choice(&mut self) -> Option<C> {
        self.choices.pop()
    }
}

/// Why an answer ended, if it did.
pub(super) fn stop_reason(finish_reason: Option<String>) -> Result<Option<StopReason>, AnswerFault> {
    match finish_reason.as_deref() {
        None => Ok(None),
        Some("stop") => Ok(Some(StopReason::StopToken)),
        Some("length") => Ok(Some(StopReason::Length)),
        Some(reason) => Err(AnswerFault::UnknownEnd { reason: reason.to_owned() }),
    }
}
