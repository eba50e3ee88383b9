//! The store from outside, on SQLite or on the PostgreSQL server that the environment names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    clippy::disallowed_methods,
    unreachable_pub
)]

mod kill;
mod migrations;
mod several_servers;
#[path = "../test_database/mod.rs"]
mod test_database;
