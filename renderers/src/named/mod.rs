//! Renderers by formats that are written by hand and have a name.
//!
//! - [`named_renderer`]: such a renderer.
//! - [`prompt_writer`]: a format and a tokenizer: conversations to tokens.
//! - [`named_continuation`]: what follows a sampled turn.
//! - [`named_supervised`], [`cookbook_supervised`], [`trained_messages`]: sequences to train on.

pub(crate) mod cookbook_supervised;
pub(crate) mod named_continuation;
pub(crate) mod named_renderer;
pub(crate) mod named_supervised;
pub(crate) mod prompt_writer;
pub(crate) mod trained_messages;
