//! Rollouts, attempts, spans, generations and runs in SQL, and the REST API over them.
//!
//! One task writes: concurrent writes share a transaction, and each is answered after its commit, so that
//! acknowledged means durable. Reads use connections of their own.

mod attempts;
mod conversations;
mod dialect;
mod error;
mod events;
#[doc(hidden)]
pub mod fuzzing;
mod gateway;
mod generation_spans;
mod generations;
mod lifecycle;
mod listener;
mod listing;
mod location;
pub mod model;
mod otlp;
mod resources;
mod rest;
mod rewards;
mod rollouts;
mod runs;
mod signals;
mod spans;
mod sql;
mod store;
#[cfg(test)]
mod testing;
mod tokens;
mod unaccounted;
mod workers;
mod writer;

pub use error::{Result, StoreError};
pub use location::redact_url;
pub use rest::{DEFAULT_BODY_LIMIT, RouteOptions, routes, routes_with};
pub use rewards::reward_of;
pub use store::{Statistics, Store, StoreOptions, Synchronous};
