//! The server: HTTP, the limits of connections, who may come in, and the routes of all rooms put together.

mod access;
mod http;
mod login;
pub mod metrics_page;
mod routes;
#[expect(clippy::module_inception, reason = "it is the server")]
pub mod server;
mod trace_export;
mod web_origins;
