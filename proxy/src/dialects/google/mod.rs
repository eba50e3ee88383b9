//! The Google dialect: the Gemini API's generateContent, whole and streamed, countTokens, and the list of models.
//!
//! Field names are read as protobuf's JSON has them, in camelCase and in snake_case. In what follows, and in errors, they
//! are in camelCase.

mod answer_parts;
mod conversation;
mod endpoint;
mod error;
mod fields;
mod generate_request;
mod generation_config;
mod models;
mod paths;
mod reply;
mod schema;
mod tools;

pub(crate) use endpoint::{MethodPath, call};
pub(crate) use error::response;
pub(crate) use models::{model, model_list};
pub(crate) use paths::is_google_client;
pub use paths::key_in_query;
