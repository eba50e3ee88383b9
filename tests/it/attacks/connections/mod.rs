//! Connections that no ordinary client has.

mod cancelled_streams;
mod half_closed;
mod idle_connections;
pub mod raw_http;
