//! How families' text and marks are read.
//!
//! - [`tagged`]: reasoning and calls between tags.
//! - [`harmony`]: messages on channels, as gpt-oss says them.
//! - [`llama`]: Llama 3.
//! - [`marked`]: calls that a mark announces: Mistral, Phi, Gemma.
//! - [`plain`]: text alone.

pub(crate) mod harmony;
pub(crate) mod llama;
pub(crate) mod marked;
pub(crate) mod plain;
pub(crate) mod tagged;
