//! `fulgurite serve`, and the server that a training run has of its own.

pub mod access;
pub mod command;
mod connections;
mod door;
mod half_closed;
mod http2;
mod limited_stream;
mod login;
pub mod metrics_page;
mod preface;
mod routes;
pub mod run_answers;
pub mod server;
mod timed_body;
mod trace_export;
mod web_origins;
