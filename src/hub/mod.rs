//! Models from elsewhere: what is meant by a name, fetching from Hugging Face's hub, GGUF files made into directories.

mod digest;
mod download;
pub mod fetch;
pub mod gguf_cache;
#[expect(clippy::module_inception, reason = "it speaks with the hub")]
mod hub;
pub mod named_model;
mod patience;
mod place;
mod selection;
pub mod source;
