//! Models in GGUF, the one-file format of llama.cpp, made into model directories.
//!
//! [`header`] reads what stands before the tensors, [`blocks`] makes numbers of them, [`config`] and [`tokenizer`] say in Hugging
//! Face's words what the metadata says, and [`conversion`] writes the directory, of which [`kept`] keeps one for each file.

mod blocks;
mod config;
mod conversion;
mod facts;
mod header;
mod inspection;
mod kept;
mod metadata;
mod tensor_names;
mod tokenizer;

pub use conversion::{convert_gguf, is_gguf};
pub use facts::GgufFacts;
pub(crate) use inspection::inspect_gguf;
pub use kept::{GgufProgress, find_kept_gguf, kept_gguf};
