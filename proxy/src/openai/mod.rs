//! The OpenAI dialect.

mod chat_request;
mod completion_request;
pub(crate) mod endpoint;
pub(crate) mod error;
mod models;
mod reply;
mod request;
mod sampling_fields;
mod shape;

pub(crate) use models::list_models;
