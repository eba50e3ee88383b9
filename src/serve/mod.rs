//! `fulgurite serve`, and the server that a training run has of its own.

pub mod access;
pub mod command;
mod connections;
mod half_closed;
mod limited_stream;
mod login;
pub mod metrics_page;
mod routes;
pub mod run_answers;
pub mod server;
mod timed_body;
mod trace_export;
mod web_origins;
