//! vLLM, tokens in and tokens out.
//!
//! - [`VllmSampler`]: one server.
//! - [`request`]: what it is asked, on either of its routes.
//! - [`completions`], [`generate`]: what it answers on `/v1/completions` and on `/inference/v1/generate`.

mod completions;
mod generate;
mod request;
mod sampler;

pub use sampler::VllmSampler;
