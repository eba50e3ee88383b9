//! What a learner works with.
//!
//! - [`shard`]: a part of a batch, with a gradient of its own.
//! - [`optimizer`]: AdamW.

pub(crate) mod optimizer;
pub(crate) mod shard;
