//! vLLM's own call, which renderers on the client's side make: it takes and gives tokens.

mod generate_reply;
pub(crate) mod generate_request;
