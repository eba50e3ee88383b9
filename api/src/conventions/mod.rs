//! What all our JSON routes over the store have in common, Agent-lightning's too: how bodies and parameters are read,
//! how every mistake in them is told, whose turn a large body is, and how long lists are written.

pub mod attempt_update;
pub mod error;
pub mod input;
pub mod lists;
mod plain_words;
pub mod refused;
pub mod serving;
pub mod shape;
pub mod turns;

pub(crate) use plain_words::plain_words;
