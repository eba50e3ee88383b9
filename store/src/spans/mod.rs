//! Spans, of model calls and of whatever else a program tells of itself.

pub(crate) mod incoming;
pub(crate) mod instant_spans;
pub(crate) mod of_call;
pub(crate) mod pages;
pub(crate) mod reading;
pub(crate) mod rows;
pub(crate) mod with_tokens;
pub(crate) mod writing;
