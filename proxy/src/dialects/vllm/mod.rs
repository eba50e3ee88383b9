//! vLLM's own routes at the server's root, which renderers on the client's side speak: `generate` takes and gives tokens,
//! `tokenizing` turns text and conversations into tokens and back.

mod generate;
mod generate_reply;
mod generate_request;
mod tokenizing;

pub(crate) use generate::generate;
pub(crate) use tokenizing::{detokenize, health, tokenize};
