//! Samplers and learners of remote hosts, against servers that answer by a script.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod new_weights;
mod other_wires;
mod replicas;
mod sample_request;
#[path = "../scripted/mod.rs"]
mod scripted;
mod shared_gpu;
mod vllm;
