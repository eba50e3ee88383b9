//! vLLM, tokens in and tokens out.
//!
//! - [`VllmSampler`]: one server.
//! - [`request`]: what it is asked, on either of its routes.
//! - [`event`]: what the events of both routes have in common.
//! - [`completions`], [`generate`]: what is answered on `/v1/completions` and on `/inference/v1/generate`.

mod completions;
mod event;
mod generate;
mod request;
mod sampler;

pub use sampler::VllmSampler;
