//! Model calls in the form that their rows take, before and while they are written.
//!
//! - [`new_call`], [`validation`]: a call as it comes, and whether it can be recorded.
//! - [`tokens`], [`conversations`], [`call_span`]: its tokens, messages and span as rows hold them.
//! - [`call_record`], [`columns`]: all of it, prepared.
//! - [`at_once`]: calls as one statement of SQLite's.
//! - [`latest_calls`]: a guess at what the next call continues; [`call_listener`]: who is told of calls.

pub(crate) mod at_once;
pub(crate) mod call_listener;
pub(crate) mod call_record;
pub(crate) mod call_span;
pub(crate) mod columns;
pub(crate) mod conversations;
pub(crate) mod latest_calls;
pub(crate) mod new_call;
pub(crate) mod tokens;
pub(crate) mod validation;
