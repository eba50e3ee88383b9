//! Learning.
//!
//! - [`learner`]: the half of an engine that learns.
//! - [`shard`]: a part of a batch, with a gradient of its own.
//! - [`optimizer`]: AdamW and its moments.

pub(crate) mod learner;
pub(crate) mod optimizer;
pub(crate) mod shard;
