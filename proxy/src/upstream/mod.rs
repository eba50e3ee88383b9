//! Calls that are forwarded unchanged to an upstream of the client's own dialect.

mod event_stream;
pub(crate) mod forward_call;
mod forwarded_call;
mod forwarded_request;
mod http_response;
mod record_answer;
mod relay;
pub(crate) mod retrieve_response;
pub(crate) mod route;
mod stream_assembly;
mod upstream_answer;
