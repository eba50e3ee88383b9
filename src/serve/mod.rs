//! `fulgurite serve`.

pub mod arguments;
pub mod command;
