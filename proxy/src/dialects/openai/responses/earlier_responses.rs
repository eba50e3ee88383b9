use std::collections::{BTreeSet, HashMap};

use fulgurite_types::Message;
use serde_json::{Map, Value};

use super::compaction::compacted_conversation;
use super::item_id::response_of_item;
use super::record_marks;
use crate::error::ProxyError;
use crate::record::recorded_call::RecordedCall;

/// The recorded responses that a request continues, by id: those that exist and that the caller may see.
#[derive(Debug, Default)]
pub(crate) struct EarlierResponses(HashMap<String, RecordedCall>);

/// The ids of the responses that a body names as its `previous_response_id` or by references to their items.
pub(crate) fn named_responses(body: &Map<String, Value>) -> BTreeSet<String> {
    let items = body.get("input").and_then(Value::as_array).into_iter().flatten();
    let references = items.filter(|item| item.get("type").is_some_and(|kind| kind == "item_reference"));
    let referenced = references.filter_map(|item| response_of_item(item.get("id")?.as_str()?));
    let previous = body.get("previous_response_id").and_then(Value::as_str).map(str::to_owned);
    previous.into_iter().chain(referenced).collect()
}

impl EarlierResponses {
    /// Recorded responses by their ids.
    pub(crate) fn new(found: HashMap<String, RecordedCall>) -> Self {
        Self(found)
    }

    /// The conversation up to the end of a response, without its request's instructions; of a compaction, what it left.
    pub(super) fn conversation(&self, response_id: &str) -> Result<Vec<Message>, ProxyError> {
        let unknown = || ProxyError::InvalidRequest {
            message: format!("Previous response with id '{response_id}' not found."),
            parameter: Some("previous_response_id".to_owned()),
            code: Some("previous_response_not_found"),
        };
        let call = self.0.get(response_id).ok_or_else(unknown)?;
        if record_marks::is_compaction(call) {
            return Ok(compacted_conversation(call));
        }
        Ok(record_marks::conversation(call).map(|(_, message)| message).chain(&call.reply).cloned().collect())
    }

    /// A response's message.
    pub(super) fn reply(&self, response_id: &str) -> Option<&Message> {
        self.0.get(response_id)?.reply.as_ref()
    }
}
