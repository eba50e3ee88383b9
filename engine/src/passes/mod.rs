//! The decoder over rows of tokens, forth and back.
//!
//! - [`forward`]: tokens to what the head reads.
//! - [`backward`]: the way back, to gradients.

pub(crate) mod backward;
pub(crate) mod forward;
