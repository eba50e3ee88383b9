//! Attacks that the built command withstands, a module each: seeded, bounded, and with a second client that is served.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod cancelled_streams;
#[path = "../common/mod.rs"]
mod common;
mod foreign_pages;
mod forged_rewards;
mod half_closed;
mod idle_connections;
mod large_prompts;
mod locks;
mod long_lists;
mod mutated_requests;
mod orphans;
mod raw_http;
mod schema_bombs;
mod secrets;
mod unbounded_counts;
