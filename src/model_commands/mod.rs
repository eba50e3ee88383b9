//! `fulgurite model`: what can be done with models, and which weights a person means.

pub mod arguments;
pub mod command;
mod export;
pub mod fetch;
pub mod named_weights;
mod rollback;
