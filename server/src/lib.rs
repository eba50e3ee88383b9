//! The server as a library: HTTP, the limits of connections, who may come in, and the routes of all rooms put together.

mod access;
mod http;
mod login;
mod metrics_page;
mod routes;
mod running_server;
mod trace_export;
mod web_origins;

pub use self::metrics_page::MetricsPage;
pub use self::running_server::{
    AuxiliaryParts, Listening, RunningServer, ServerWeights, StoreRoutes, write_ready_file,
};
