//! What the remote hosts have in common. What is public is for hosts whose wire is implemented in another crate.
//!
//! - [`http`]: requests to a server, and its answers.
//! - [`probe`]: short requests that find out what a host reports of what it samples.
//! - [`answer`]: pieces of an answer, checked, to a sampler's events.
//! - [`answer_stream`]: an answer from its connection to its reader.
//! - [`prompt_scores`]: what is reported of a prompt's tokens.
//! - [`sampler`]: a server of any kind as a `Sampler`; a kind is a `Wire`.
//! - [`sampling_fields`]: how tokens are drawn, by the names that servers share.
//! - [`served_models`]: which of a server's models is meant.
//! - [`serving`]: which weights a request gets, and what keeps them from being replaced under it.
//! - [`weights_label`]: versions of weights as servers name them.

pub(crate) mod answer;
pub(crate) mod answer_stream;
pub(crate) mod http;
pub(crate) mod probe;
pub(crate) mod prompt_scores;
pub(crate) mod sampler;
pub(crate) mod sampling_fields;
pub(crate) mod served_models;
pub(crate) mod serving;
pub(crate) mod weights_label;

pub use answer::{Answer, Elements, EndsAt, Piece, PieceToken};
pub use http::address::{CONNECT_LIMIT, HEALTH_LIMIT, base_url};
pub use http::error_words::{describe, error_message, refusal};
pub use probe::{PROBED_TOKENS, probe, reports_certainty};
pub use weights_label::WeightsSpan;
