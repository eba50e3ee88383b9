//! What a host that samples takes and gives.
//!
//! - [`sampler`]: the trait, and what a sampler can take.
//! - [`sample_request`], [`sample_event`], [`sample_stream`]: a call for tokens, and the tokens as they come.
//! - [`prompt_scores`]: how likely a prompt is.
//! - [`new_weights`], [`weights_receiver`]: weights to be sampled from, and whoever they are put behind.
//! - [`kept_weights`]: weights that a host keeps under names of their own.
//! - [`seed`]: how the seed of a request follows from what it belongs to.

pub(crate) mod kept_weights;
pub(crate) mod new_weights;
pub(crate) mod prompt_scores;
pub(crate) mod sample_event;
pub(crate) mod sample_request;
pub(crate) mod sample_stream;
pub(crate) mod sampler;
pub(crate) mod seed;
pub(crate) mod weights_receiver;
