//! The embedded engine, tested from outside. The modules `real_*` need a model host beside them, which a script in
//! `tests/backends/` starts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs
)]
#![allow(clippy::disallowed_methods, unreachable_pub)]

mod adapters;
mod common;
mod constraints;
mod damage;
mod exactness;
mod hostile_files;
mod memory;
mod real_hosts;
mod real_llama_cpp;
mod real_sglang;
mod real_skyrl;
mod real_vllm;
mod sampling;
mod training;
mod transformers_parity;
