//! The proxy over real sockets, in front of model hosts and upstreams that play scripts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

#[path = "../../../backends/tests/scripted/mod.rs"]
mod scripted;

mod bodies;
mod clients;
mod common;
mod control;
mod dialects;
mod faults;
mod record;
mod upstream;
