//! What the remote hosts have in common.
//!
//! - [`connections`]: connections to one server, and answers under way on them.
//! - [`host`]: one server behind a URL: requests, and what its refusals mean.
//! - [`response_head`], [`body_decoder`]: bytes of a connection to an answer's head, and to its body.
//! - [`event_decoder`]: bytes of a stream to the data of its events.
//! - [`json_reader`]: an event's JSON, read where it stands.
//! - [`answer`]: pieces of an answer, checked, to what a sampler says.
//! - [`answer_stream`]: an answer from its connection to whoever waits for it.
//! - [`sampler`]: a server of any kind as a `Sampler`; a kind is a `Wire`.
//! - [`sampling_fields`]: how tokens are drawn, by the names that servers share.
//! - [`served_models`]: which of a server's models is meant.
//! - [`serving`]: which weights a request gets, and what keeps them from being replaced under it.
//! - [`weights_label`]: versions of weights as servers name them.

pub(crate) mod answer;
pub(crate) mod answer_stream;
pub(crate) mod body_decoder;
pub(crate) mod connections;
pub(crate) mod event_decoder;
pub(crate) mod host;
pub(crate) mod json_reader;
pub(crate) mod response_head;
pub(crate) mod sampler;
pub(crate) mod sampling_fields;
pub(crate) mod served_models;
pub(crate) mod serving;
pub(crate) mod weights_label;
