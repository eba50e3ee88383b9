//! A model's own chat template, run as Python would.
//!
//! - [`template_renderer`]: a template as a renderer.
//! - [`chat_template`], [`interpreter`]: a template, compiled and run.
//! - [`message_values`], [`content_protection`]: messages as a template sees them, and text that stays text.
//! - [`template_dialect`], [`template_roles`], [`template_response_format`], [`template_conversations`]: what a template wants, found out by rendering small conversations.
//! - [`template_continuation`]: what follows a sampled turn.
//! - [`template_check`], [`pieces`]: what is wrong with a template.

pub(crate) mod chat_template;
pub(crate) mod content_protection;
mod interpreter;
pub(crate) mod message_values;
pub(crate) mod pieces;
pub(crate) mod template_check;
pub(crate) mod template_continuation;
pub(crate) mod template_conversations;
pub(crate) mod template_dialect;
pub(crate) mod template_literals;
pub(crate) mod template_renderer;
pub(crate) mod template_response_format;
pub(crate) mod template_roles;
