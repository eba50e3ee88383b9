//! Recorded calls whose tokens are scored again under other weights.

pub mod calls;
pub mod scores;
