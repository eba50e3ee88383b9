//! The decoder over rows of tokens, forth and back.
//!
//! - [`forward`]: tokens to what the head reads.
//! - [`backward`]: the way back, to gradients.
//! - [`packed_rows`]: the rows.
//! - [`head`], [`loss`]: what the head predicts, and what that costs.

pub(crate) mod backward;
pub(crate) mod forward;
pub(crate) mod head;
pub(crate) mod loss;
#[cfg(test)]
mod loss_vectors;
pub(crate) mod packed_rows;
