//! The APIs that clients speak: how their requests are read and checked, and how answers and errors are written.
//!
//! All of it is pure and synchronous. Models, recorded calls, ids and times are handed in as values, so that each dialect
//! can be tested with values alone. `tests/house/import_circles.py` holds that.

pub(crate) mod anthropic;
#[cfg(any(test, fuzzing))]
pub(crate) mod any_request;
pub(crate) mod field_checks;
pub(crate) mod field_kinds;
pub(crate) mod google;
pub(crate) mod json_text;
pub(crate) mod listed_model;
pub(crate) mod object_fields;
pub(crate) mod openai;
#[cfg(test)]
mod schema_fields;
pub(crate) mod vllm;
