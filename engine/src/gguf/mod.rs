//! Models in GGUF, the one-file format of llama.cpp, made into model directories.
//!
//! [`header`] reads what stands before the tensors, [`blocks`] makes numbers of them, [`config`] and [`tokenizer`] say in Hugging
//! Face's words what the metadata says, and [`conversion`] writes the directory.

mod blocks;
mod config;
mod conversion;
mod header;
mod metadata;
mod tensor_names;
mod tokenizer;

pub use conversion::{convert_gguf, is_gguf};
