//! What the record of a response says of its request beside the request's own fields.

use fulgurite_types::Message;
use serde_json::{Map, Value, json};

use crate::record::recorded_call::RecordedCall;

/// The first message is the request's `instructions`, which a later request does not take over.
const INSTRUCTIONS_COME_FIRST: &str = "instructions_come_first";

/// It is a compaction, whose last message is the request for a summary.
const IS_COMPACTION: &str = "is_compaction";

/// Marks a request that has `instructions`.
pub(super) fn mark_instructions(extra: &mut Map<String, Value>) {
    extra.insert(INSTRUCTIONS_COME_FIRST.to_owned(), json!(true));
}

/// Marks a request for a compaction.
pub(super) fn mark_compaction(extra: &mut Map<String, Value>) {
    extra.insert(IS_COMPACTION.to_owned(), json!(true));
}

/// Whether a call is a compaction.
pub(crate) fn is_compaction(call: &RecordedCall) -> bool {
    call.request_extra.contains_key(IS_COMPACTION)
}

/// The message that is the request's `instructions`, if it had some.
pub(super) fn instructions(call: &RecordedCall) -> Option<&Message> {
    call.request_extra.contains_key(INSTRUCTIONS_COME_FIRST).then(|| call.messages.first()).flatten()
}

/// The conversation of a call's request, with the places of its messages in the prompt: without instructions, and without
/// the request for a summary.
pub(super) fn conversation(call: &RecordedCall) -> impl Iterator<Item = (usize, &Message)> {
    let end = call.messages.len() - usize::from(is_compaction(call) && !call.messages.is_empty());
    call.messages.iter().enumerate().take(end).skip(usize::from(instructions(call).is_some()))
}
