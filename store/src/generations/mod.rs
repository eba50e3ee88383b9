//! Generations: what was sampled in each model call, as deltas of what it continues.

pub(crate) mod continued;
pub(crate) mod conversations;
pub(crate) mod drift;
pub(crate) mod reading;
pub(crate) mod tokens;
