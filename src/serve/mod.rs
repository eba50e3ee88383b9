//! `fulgurite serve`, and the server that a training run has of its own.

pub mod access;
pub mod command;
mod http;
mod login;
pub mod metrics_page;
mod routes;
pub mod run_answers;
pub mod server;
mod trace_export;
mod web_origins;
