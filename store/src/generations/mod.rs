//! Generations: what was sampled in each model call, rebuilt from deltas of what it continues.

pub(crate) mod continued;
pub(crate) mod reading;
