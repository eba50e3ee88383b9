//! SGLang, tokens in and tokens out.
//!
//! - [`SglangSampler`]: one server.
//! - [`server`], [`temperature`]: what is found out about it.
//! - [`request`], [`event`], [`generate`]: what it is asked, what it answers, and both together.

mod event;
mod generate;
mod prompt_scores;
mod request;
mod sampler;
mod server;
mod temperature;

pub use sampler::SglangSampler;
