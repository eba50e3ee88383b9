//! The APIs that clients speak: how their requests are read and checked, and how answers and errors are written.

pub(crate) mod anthropic;
pub(crate) mod field_checks;
pub(crate) mod field_kinds;
pub(crate) mod google;
pub(crate) mod json_text;
pub(crate) mod object_fields;
pub(crate) mod openai;
#[cfg(test)]
mod schema_fields;
pub(crate) mod vllm;
