//! A sampler and a learner at services that answer by a script, the wire's bytes, and the server over the embedded engine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod base_models;
mod learner;
mod sampler;
#[path = "../../../backends/tests/scripted/mod.rs"]
mod scripted;
#[path = "../scripted/tinker.rs"]
mod tinker_host;
mod training_runs;
mod wire;
