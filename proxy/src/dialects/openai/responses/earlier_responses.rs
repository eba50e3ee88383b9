use std::collections::HashMap;

use fulgurite_store::{Store, StoreError};
use fulgurite_types::Message;
use serde_json::{Map, Value};

use super::compaction::compacted_conversation;
use super::deleted_responses::is_deleted;
use super::item_id::response_of_item;
use super::record_marks;
use crate::error::ProxyError;
use crate::record::recorded_call::{RecordedCall, recorded_call};

/// The recorded responses that a request continues, by id: those that exist and that the caller may see.
#[derive(Debug, Default)]
pub(crate) struct EarlierResponses(HashMap<String, RecordedCall>);

impl EarlierResponses {
    /// Reads the responses that a body names as its `previous_response_id` or by references to their items.
    pub(crate) async fn named_in(
        body: &Map<String, Value>,
        store: &Store,
        rollout_id: Option<&str>,
    ) -> Result<Self, StoreError> {
        let items = body.get("input").and_then(Value::as_array).into_iter().flatten();
        let references = items.filter(|item| item.get("type").is_some_and(|kind| kind == "item_reference"));
        let referenced = references.filter_map(|item| response_of_item(item.get("id")?.as_str()?));
        let previous = body.get("previous_response_id").and_then(Value::as_str).map(str::to_owned);
        let mut found = HashMap::new();
        for id in previous.into_iter().chain(referenced) {
            if !found.contains_key(&id)
                && let Some(call) = visible_response(store, rollout_id, &id).await?
            {
                found.insert(id, call);
            }
        }
        Ok(Self(found))
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

/// A recorded answer to messages, if there is one that was not deleted and that the caller may see: its own rollout's, or, for a caller that
/// names no rollout, one of a session.
pub(crate) async fn visible_response(
    store: &Store,
    rollout_id: Option<&str>,
    id: &str,
) -> Result<Option<RecordedCall>, StoreError> {
    let Some(call) = recorded_call(store, id).await?.filter(|call| !call.messages.is_empty()) else { return Ok(None) };
    let is_visible = match rollout_id {
        Some(rollout_id) if rollout_id == call.generation.rollout_id => true,
        Some(name) => store.rollout_id_of(name).await? == call.generation.rollout_id,
        None => {
            let rollout = store.get_rollout(&call.generation.rollout_id).await?;
            let metadata = rollout.and_then(|(rollout, _)| rollout.metadata);
            metadata.is_some_and(|metadata| metadata.get("kind").is_some_and(|kind| kind == "session"))
        }
    };
    Ok(match is_visible && !is_deleted(store, &call.generation).await? {
        true => Some(call),
        false => None,
    })
}
