//! Renderers, tested from outside, many of them against what Python's libraries write.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod continuation;
mod cookbook;
mod hostile_tokenizers;
mod named_renderers;
mod round_trip;
