//! What a host that learns takes and gives.
//!
//! - [`learner`], [`loss_function`]: the trait, and the losses of tokens that it computes.
//! - [`comparisons`]: losses of which of two answers is better.
//! - [`publishing_learner`]: a learner whose weights go behind a sampler.
//! - [`shared_gpu`]: hosts that sleep while their learner computes.
//! - [`trained_parts`]: which tensors are trained, and how fast.

#[cfg(test)]
mod comparison_vectors;
pub(crate) mod comparisons;
pub(crate) mod learner;
pub(crate) mod loss_function;
pub(crate) mod publishing_learner;
pub(crate) mod shared_gpu;
pub(crate) mod trained_parts;
