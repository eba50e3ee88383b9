//! The OpenAI dialect.

pub(crate) mod chat_request;
pub(crate) mod completion_request;
pub(crate) mod endpoint;
pub(crate) mod error;
mod models;
mod reply;
mod sampling_fields;
mod shape;
mod tool_fields;

pub(crate) use models::list_models;
