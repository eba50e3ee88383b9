//! Calls that are passed on as they come, to whoever speaks the client's own dialect: `passing` decides whether a
//! request came before, and sends it on if not. `route` is what is passed on, by path, and `request` what becomes of
//! its headers and body; `relay` hands the answer over, whole or event by event (`events`), once it is recorded
//! (`record`). What a stream says is put together again by `assembly`, and `answer` reads a whole answer of any dialect;
//! `kept_replies` are those that somebody may ask for again, and `responding` is the response.

mod event_stream;
mod forwarded_request;
mod http_response;
mod kept_replies;
mod pass_on;
mod record_answer;
mod relay;
mod route;
mod stream_assembly;
mod upstream_answer;

pub(crate) use kept_replies::KeptReplies;
pub(crate) use pass_on::{pass_on, retrieve};
pub(crate) use relay::Passed;
pub(crate) use route::Route;
