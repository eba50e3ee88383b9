//! What a host that learns takes and gives.
//!
//! - [`learner`], [`loss_function`]: the trait, and the losses that it computes.
//! - [`publishing_learner`]: a learner whose weights go behind a sampler.

pub(crate) mod learner;
pub(crate) mod loss_function;
pub(crate) mod publishing_learner;
