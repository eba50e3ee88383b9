//! What a request continues, as clients really send it, and that every format continues token by token.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod clients;
mod departures;
mod every_format;
mod setup;
