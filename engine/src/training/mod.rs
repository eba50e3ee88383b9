//! Learning.
//!
//! - [`learner`]: the half of an engine that learns.
//! - [`shard`]: a part of a batch, with a gradient of its own; [`compared`]: of comparisons, which stay together.
//! - [`example`]: a datum with its losses.

pub(crate) mod compared;
pub(crate) mod example;
pub(crate) mod learner;
pub(crate) mod shard;
