//! What the rows of a call hold, in one list for both ways in which they are written.
//!
//! A call is one row of `spans` and one of `generations`. The columns that the call itself determines are listed here, each
//! with its name and its value; the others (places, parents) come from the statement that writes the row.

use fulgurite_types::{BranchReason, Defect};
use sqlx::Any;
use sqlx::any::AnyArguments;
use sqlx::query::Query;

use crate::Result;
use crate::call_records::call_record::{CallRecord, Session};
use crate::checksums::add;
use crate::database::sql::to_integer;
use crate::row_checksums::{heartbeat_digest, session_digest};

pub(crate) type CallQuery<'q> = Query<'q, Any, AnyArguments>;

/// A value of a column. PostgreSQL needs the type of a missing value, too.
pub(crate) enum Value<'c> {
    Text(&'c str),
    OptionalText(Option<&'c str>),
    OwnedText(Option<String>),
    Integer(i64),
    OptionalInteger(Option<i64>),
    Real(f64),
    Bytes(&'c [u8]),
    OptionalBytes(Option<&'c [u8]>),
    OwnedBytes(Option<Vec<u8>>),
}

/// What a value may depend on beside the call.
#[derive(Clone, Copy)]
pub(crate) struct Writing {
    /// Tokens of its prompt that the call holds which it continues.
    pub held_tokens: usize,
    /// When it is written, in seconds since the epoch.
    pub time: f64,
}

/// A column and what it holds of a call.
pub(crate) struct Column {
    pub name: &'static str,
    value: for<'c> fn(&'c CallRecord, Writing) -> Result<Value<'c>>,
}

const fn column(name: &'static str, value: for<'c> fn(&'c CallRecord, Writing) -> Result<Value<'c>>) -> Column {
    Column { name, value }
}

/// Of both tables: whose the call is.
pub(crate) const OWNER: &[Column] = &[
    column("rollout_id", |call, _| Ok(Value::Text(&call.generation.rollout_id))),
    column("attempt_id", |call, _| Ok(Value::Text(&call.generation.attempt_id))),
    column("span_id", |call, _| Ok(Value::Text(&call.generation.span_id))),
];

/// Of `spans` alone, beside `sequence_id` and `body`.
pub(crate) const SPAN: &[Column] = &[
    column("trace_id", |call, _| Ok(Value::Text(&call.generation.trace_id))),
    column("name", |call, _| Ok(Value::Text(&call.generation.name))),
    column("start_time", |call, _| Ok(Value::Real(call.generation.start_time))),
    column("end_time", |call, _| Ok(Value::Real(call.generation.end_time))),
];

/// Of `generations` alone, beside `parent_id`, `messages_parent_id` and `messages`.
pub(crate) const GENERATION: &[Column] = &[
    column("generation_id", |call, _| Ok(Value::Text(&call.generation.generation_id))),
    column("branch_reason", |call, _| {
        Ok(Value::OptionalText(call.generation.branch_reason.as_ref().map(BranchReason::as_str)))
    }),
    column("model", |call, _| Ok(Value::Text(&call.generation.model))),
    column("prompt_tokens", |call, writing| Ok(Value::Bytes(call.prompt_from(writing.held_tokens)))),
    column("sampled_tokens", |call, _| Ok(Value::Bytes(call.sampled()))),
    column("logprobs", |call, _| Ok(Value::OptionalBytes(call.packed_logprobs.as_deref()))),
    column("sampled_length", |call, _| {
        Ok(Value::Integer(to_integer("sampled_tokens", call.generation.sampled_tokens.len())?))
    }),
    column("context_length", |call, _| Ok(Value::Integer(to_integer("prompt_tokens", call.context().0)?))),
    column("context_hash", |call, _| Ok(Value::OwnedBytes(Some(call.context().1.to_vec())))),
    column("stop_reason", |call, _| Ok(Value::Text(call.generation.stop_reason.as_str()))),
    column("weights_versions", |call, _| Ok(Value::Text(&call.weights_versions))),
    column("sampling", |call, _| Ok(Value::Text(&call.sampling))),
    column("seed", |call, _| Ok(Value::Integer(call.generation.seed.cast_signed()))),
    column("renderer", |call, _| Ok(Value::Text(&call.generation.renderer))),
    column("tokenizer", |call, _| Ok(Value::Text(&call.generation.tokenizer))),
    column("request_digest", |call, _| Ok(Value::Text(&call.generation.request_digest))),
    column("client_gone", |call, _| Ok(Value::Integer(i64::from(call.generation.client_disconnected)))),
    column("defect", |call, _| Ok(Value::OptionalText(call.generation.defect.as_ref().map(Defect::as_str)))),
    column("answer", |call, _| {
        Ok(Value::OptionalText(call.conversation.as_ref().map(|written| written.answer.as_str())))
    }),
    column("messages_length", |call, _| {
        let length = call.conversation.as_ref().map(|written| to_integer("messages", written.length()));
        Ok(Value::OptionalInteger(length.transpose()?))
    }),
    column("messages_hash", |call, _| {
        Ok(Value::OwnedBytes(call.conversation.as_ref().map(|written| written.hash().to_vec())))
    }),
    column("checksum", |call, writing| Ok(Value::Integer(call.checksum(writing.held_tokens)?))),
    // Not in the checksum: it changes when another server gives the answer again.
    column("server_id", |call, _| Ok(Value::OptionalInteger(call.server_id))),
    column("conversation_digest", |call, _| {
        Ok(Value::OptionalBytes(call.conversation_digest.as_ref().map(|digest| &digest[..])))
    }),
];

/// Of no table: what the statement needs that writes a call at once, and guesses that it checks.
pub(crate) const AT_ONCE: &[Column] = &[
    column("heard_time", |_, writing| Ok(Value::Real(writing.time))),
    column("body_before", |call, _| Ok(Value::Text(&call.body.before))),
    column("body_after", |call, _| Ok(Value::Text(&call.body.after))),
    column("span_digest", |call, _| Ok(Value::Integer(call.span_digest))),
    column("parent_length", |call, _| {
        let length = call.context_parent.map(|(length, _)| to_integer("prompt_tokens", length));
        Ok(Value::OptionalInteger(length.transpose()?))
    }),
    column("parent_hash", |call, _| Ok(Value::OwnedBytes(call.context_parent.map(|(_, hash)| hash.to_vec())))),
    column("messages_parent_length", |call, _| {
        let length = call.messages_parent.map(|(length, _)| to_integer("messages", length));
        Ok(Value::OptionalInteger(length.transpose()?))
    }),
    column("messages_parent_hash", |call, _| {
        Ok(Value::OwnedBytes(call.messages_parent.map(|(_, hash)| hash.to_vec())))
    }),
    column("messages_hashes", |call, _| {
        let hashes = |held| call.conversation.as_ref().map(|written| written.hashes_beyond(held));
        Ok(Value::OwnedBytes(hashes(call.messages_expected_to_be_held())))
    }),
    column("first_message", |call, _| {
        let held = call.messages_expected_to_be_held();
        Ok(Value::OptionalText(call.conversation.as_ref().and_then(|written| written.message(held))))
    }),
    column("later_messages", |call, _| {
        let held = call.messages_expected_to_be_held();
        Ok(Value::OwnedText(call.conversation.as_ref().map(|written| written.listed_from(held + 1))))
    }),
    column("session_config", |call, _| {
        Ok(Value::OptionalText(call.session.as_ref().map(|session| session.config.as_str())))
    }),
    column("session_metadata", |call, _| {
        Ok(Value::OptionalText(call.session.as_ref().map(|session| session.metadata.as_str())))
    }),
    column("rollout_checksum", |call, writing| {
        let checksum = |session: &Session| add(session.rollout_checksum, session_digest(writing.time));
        Ok(Value::OptionalInteger(call.session.as_ref().map(checksum)))
    }),
    column("attempt_checksum", |call, writing| {
        let checksum = |session: &Session| add(session.attempt_checksum, session_digest(writing.time));
        Ok(Value::OptionalInteger(call.session.as_ref().map(checksum)))
    }),
    column("heartbeat_checksum", |call, writing| {
        Ok(Value::Integer(add(call.heartbeat_ids, heartbeat_digest(writing.time))))
    }),
];

/// The names of columns, each with this before it, with commas between them.
pub(crate) fn names(before: &str, columns: &[&[Column]]) -> String {
    let names = columns.iter().flat_map(|columns| columns.iter());
    names.map(|column| format!("{before}{}", column.name)).collect::<Vec<_>>().join(", ")
}

/// How many columns there are.
pub(crate) fn width(columns: &[&[Column]]) -> usize {
    columns.iter().map(|columns| columns.len()).sum()
}

/// Appends a call's values of columns to a query's arguments, in their order.
pub(crate) fn bind<'q>(
    mut query: CallQuery<'q>,
    columns: &[&[Column]],
    call: &'q CallRecord,
    writing: Writing,
) -> Result<CallQuery<'q>> {
    for column in columns.iter().flat_map(|columns| columns.iter()) {
        query = match (column.value)(call, writing)? {
            Value::Text(text) => query.bind(text),
            Value::OptionalText(text) => query.bind(text),
            Value::OwnedText(text) => query.bind(text),
            Value::Integer(number) => query.bind(number),
            Value::OptionalInteger(number) => query.bind(number),
            Value::Real(number) => query.bind(number),
            Value::Bytes(bytes) => query.bind(bytes),
            Value::OptionalBytes(bytes) => query.bind(bytes),
            Value::OwnedBytes(bytes) => query.bind(bytes),
        };
    }
    Ok(query)
}
