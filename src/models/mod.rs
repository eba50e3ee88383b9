//! Models: opened, fetched, converted, and made where they are missing.

pub mod base_model;
pub mod command;
pub mod fetch;
pub mod gguf_cache;
pub mod open;
