//! The OpenAI dialect.

pub(crate) mod chat;
pub(crate) mod error;
mod models;
mod request;
mod response;
mod stream;

pub(crate) use models::list_models;
