//! The real command over real sockets, as people and programs use it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod attacks;
mod commands;
mod common;
mod looking;
mod mcp;
mod page;
mod partners;
mod serving;
mod sessions;
mod training;
mod worlds;

#[path = "../../tinker/tests/age_identity/mod.rs"]
mod age_identity;
#[path = "../../backends/tests/scripted/mod.rs"]
mod scripted;
#[path = "../../store/tests/test_database/mod.rs"]
mod test_database;
#[path = "../../tinker/tests/scripted/tinker.rs"]
mod tinker_host;
#[path = "common/vllm_over_engine.rs"]
mod vllm_over_engine;
