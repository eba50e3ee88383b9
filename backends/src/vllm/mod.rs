//! vLLM, tokens in and tokens out.
//!
//! - [`VllmSampler`]: one server.
//! - [`request`]: what it is asked, on either of its routes.
//! - [`event`]: what the events of both routes have in common.
//! - [`weights`]: how it is given new ones.
//! - [`sleep`]: how it leaves its GPU to a learner.
//! - [`prompt_scores`]: how likely a prompt is.
//! - [`completions`], [`generate`]: what is answered on `/v1/completions` and on `/inference/v1/generate`.

mod completions;
mod event;
mod generate;
mod prompt_scores;
mod request;
mod sampler;
mod sleep;
mod weights;

pub use sampler::VllmSampler;
