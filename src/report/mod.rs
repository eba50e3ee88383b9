//! `fulgurite report`: the curves of runs.

pub mod command;
mod curves;
