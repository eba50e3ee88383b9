//! What a row of a file says: its shape found, its messages read.

pub(super) mod conversation;
pub(super) mod lines;
pub(super) mod published;
pub(super) mod row_form;
pub(super) mod row_rules;
pub(super) mod written_messages;
