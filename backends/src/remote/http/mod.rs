//! Requests to a server over HTTP, and its answers.
//!
//! - [`address`]: where a server is, and how long it may take to be reached.
//! - [`connections`]: connections to one server, and answers under way on them.
//! - [`host`]: one server behind a URL: requests, and what its refusals mean.
//! - [`response_head`], [`body_decoder`]: bytes of a connection to an answer's head, and to its body.
//! - [`event_decoder`]: bytes of a stream to the data of its events.
//! - [`error_words`]: what went wrong, in words, and whose fault that is.

pub(crate) mod address;
pub(crate) mod body_decoder;
pub(crate) mod connections;
pub(crate) mod error_words;
pub(crate) mod event_decoder;
pub(crate) mod host;
pub(crate) mod response_head;
