//! vLLM's own routes at the server's root, which renderers on the client's side speak: `generate` takes and gives tokens,
//! `tokenizing` turns text and conversations into tokens and
//! back, `control` is what trainers hand over adapters by.

mod control;
mod generate;
mod generate_reply;
mod generate_request;
mod tokenizing;

pub(crate) use control::routes as control_routes;
pub(crate) use generate::generate;
pub(crate) use tokenizing::{detokenize, health, tokenize};
