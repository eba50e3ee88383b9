//! What all our JSON routes over the store have in common, Agent-lightning's too: how bodies and parameters are read,
//! how every mistake in them is told, whose turn a large body is, and how long lists are written.

pub mod attempt_update;
pub mod error;
mod found_and_expected;
pub mod input;
pub mod lists;
pub mod refused;
pub(crate) mod replaced;
pub mod serving;
pub mod shape;
pub mod turns;

pub(crate) use found_and_expected::found_and_expected;
