//! What a server tells of itself: `/metrics`, the log of requests, and spans for a collector.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod access_log;
#[path = "../common/mod.rs"]
mod common;
mod metrics;
mod otlp;
mod page;
#[path = "../../backends/tests/scripted/mod.rs"]
mod scripted;
