//! The Anthropic dialect: Messages, the count of a prompt's tokens, and the list of models.

mod content_blocks;
pub(crate) mod conversation;
mod document;
pub(crate) mod error;
pub(crate) mod message_request;
mod models;
mod reply;
mod tools;

pub(crate) use conversation::CALL_INPUTS;
pub(crate) use error::error_event;
pub(crate) use message_request::conversation_of;
pub(crate) use models::{model, model_list};

use axum::http::{HeaderMap, Uri};

/// Whether a request comes from an Anthropic client: by its header, or by a path that only this dialect has.
pub(crate) fn is_anthropic_client(uri: &Uri, headers: &HeaderMap) -> bool {
    let path = uri.path();
    let is_own = path.ends_with("/messages") || path.contains("/messages/");
    // OpenAI's threads have messages too.
    headers.contains_key("anthropic-version") || (is_own && !path.contains("/threads/"))
}
