//! The Google dialect: the Gemini API's generateContent, whole and streamed, countTokens, and the list of models.
//!
//! Field names are read as protobuf's JSON has them, in camelCase and in snake_case. In what follows, and in errors, they
//! are in camelCase.

mod answer_parts;
pub(crate) mod conversation;
pub(crate) mod error;
mod fields;
pub(crate) mod generate_request;
mod generation_config;
mod models;
pub(crate) mod reply;
mod schema;
mod tools;

pub(crate) use models::{model, model_list};
