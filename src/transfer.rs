//! `fulgurite export` and `fulgurite import`: a store, or a part of it, as a file and back.

pub mod arguments;
mod export;
mod export_subject;
mod import;

pub use export::export;
pub use import::import;
