//! Samples: requests for them, their answers, the weights behind them.
//!
//! - [`sample_request`]: a request of the wire, read and checked; [`prompt_report`]: what it asks of its prompt.
//! - [`repeated_seeds`]: seeds that a client gives with every call.
//! - [`sampled_requests`]: when sampled sequences were last used.
//! - [`sampling_sessions`]: which weights a request samples from; its work.
//! - [`sample_answer`]: answers in both forms of the wire.
//! - [`weights_cache`]: saved weights that were sampled from last.
//! - [`saved_weights`]: what was saved for sampling, behind a model that agents call.
//! - [`named_checkpoints`]: checkpoints that agents' calls name in the place of a model.

pub(crate) mod named_checkpoints;
pub(crate) mod prompt_report;
pub(crate) mod repeated_seeds;
pub(crate) mod sample_answer;
pub(crate) mod sample_request;
pub(crate) mod sampled_requests;
pub(crate) mod sampling_sessions;
pub(crate) mod saved_weights;
pub(crate) mod weights_cache;
