//! What a model is given and what it answers, before it is tokens.

pub(crate) mod conversation;
pub(crate) mod message;
pub(crate) mod tool;
