//! Models: opened, fetched, converted, exported, put back, and made where they are missing.

pub mod arguments;
pub mod base_model;
pub mod base_weights;
pub mod command;
pub mod export;
pub mod fetch;
pub mod gguf_cache;
pub mod named_model;
pub mod named_weights;
pub mod open;
pub mod rollback;
pub mod start_weights;
