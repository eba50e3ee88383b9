//! Several hosts of one model as one.
//!
//! - [`Replicas`]: samplers as one sampler: what happens when one fails.
//! - [`choice`]: which host gets a request.
//! - [`replica`]: one host: its turns, of which so many at a time, and their outcomes.
//! - [`ReplicaOptions`]: how they are used.
//! - [`circuit`]: whether a host is worth asking.

mod choice;
mod circuit;
mod options;
mod replica;
mod sampler;

pub(crate) use choice::order;
pub use options::ReplicaOptions;
pub(crate) use replica::{Replica, Turn};
pub use sampler::Replicas;
