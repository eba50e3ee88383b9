//! Spans: of model calls, and those that other programs send.

pub(crate) mod call_details;
pub(crate) mod incoming;
pub(crate) mod instant_spans;
pub mod message_attributes;
pub(crate) mod pages;
pub(crate) mod reading;
pub(crate) mod rows;
pub(crate) mod span_message;
pub(crate) mod traces;
pub(crate) mod with_tokens;
pub(crate) mod writing;

use crate::open_database::Database;

/// Spans, of model calls and of other programs.
#[derive(Clone, Debug)]
pub struct Spans {
    database: Database,
}

impl Spans {
    pub(crate) fn new(database: &Database) -> Self {
        Self { database: database.clone() }
    }
}
