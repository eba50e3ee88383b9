//! The OpenAI dialect.

pub(crate) mod chat_request;
pub(crate) mod completion_request;
pub(crate) mod error;
mod models;
mod reply;
mod reply_shape;
pub(crate) mod response_format;
pub(crate) mod responses;
pub(crate) mod sampling_fields;
pub(crate) mod token_logprobs;
mod tool_fields;

pub(crate) use models::{model, model_list};
