//! Several hosts of one model as one.
//!
//! - [`Replicas`]: which host gets a request, and what happens when it fails.
//! - [`replica`]: one host: its turns, of which so many at a time, and their outcomes.
//! - [`circuit`]: whether a host is worth asking.

mod circuit;
mod replica;
mod sampler;

pub use sampler::{ReplicaOptions, Replicas};
