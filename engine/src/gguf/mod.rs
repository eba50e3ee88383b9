//! Models in GGUF, the one-file format of llama.cpp, made into model directories.
//!
//! [`header`] reads what stands before the tensors, [`blocks`] makes numbers of them, [`config`] and [`tokenizer`]
//! translate the metadata into Hugging Face's terms, and [`conversion`] writes the directory, of which
//! [`conversion_cache`] keeps one for each file. [`export`] goes the other way.

mod blocks;
mod config;
mod conversion;
mod conversion_cache;
mod export;
mod facts;
mod header;
mod inspection;
mod metadata;
mod tensor_names;
mod tokenizer;

pub use conversion::{convert_gguf, is_gguf};
pub use conversion_cache::{GgufProgress, converted_gguf, find_converted_gguf};
pub use export::export_gguf;
pub use facts::GgufFacts;
pub(crate) use inspection::{GgufInspection, inspect_gguf};
