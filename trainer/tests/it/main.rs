//! The trainer over a real store, in process and over HTTP.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    unreachable_pub,
    missing_docs
)]

mod accounting;
mod drift;
mod permission;
mod remote_record;
mod served_model;
