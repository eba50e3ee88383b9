//! Sequences to train on, made of conversations.
//!
//! - [`train_on_what`]: which messages are trained.
//! - [`weighted_tokens`]: a sequence.

pub(crate) mod train_on_what;
pub(crate) mod weighted_tokens;
