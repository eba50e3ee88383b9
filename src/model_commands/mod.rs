//! `fulgurite model`: what can be done with models.

pub mod arguments;
pub mod command;
mod export;
pub mod fetch;
mod rollback;
