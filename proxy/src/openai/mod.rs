//! The OpenAI dialect.

pub(crate) mod answer_format;
pub(crate) mod chat_request;
pub(crate) mod completion_request;
pub(crate) mod endpoint;
pub(crate) mod error;
mod models;
mod reply;
pub(crate) mod responses;
mod sampling_fields;
mod shape;
mod tool_fields;

pub(crate) use models::{model, model_list};
