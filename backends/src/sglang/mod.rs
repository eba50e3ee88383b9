//! SGLang, tokens in and tokens out.
//!
//! - [`SglangSampler`]: one server.
//! - [`server`]: what is found out about it.
//! - [`request`], [`event`]: what it is asked, and what it answers.

mod event;
mod request;
mod sampler;
mod server;

pub use sampler::SglangSampler;
