//! `fulgurite report`: runs as a page, or the curves of one metric.

pub mod arguments;
pub mod command;
mod page;
