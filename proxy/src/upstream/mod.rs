//! Calls that are passed on as they come, to whoever speaks the client's own dialect.

mod event_stream;
mod forwarded_request;
mod http_response;
mod kept_replies;
pub(crate) mod pass_on;
mod passed_call;
pub(crate) mod passed_calls;
pub(crate) mod passed_part;
mod record_answer;
mod relay;
pub(crate) mod retrieve_response;
pub(crate) mod route;
mod stream_assembly;
mod upstream_answer;
