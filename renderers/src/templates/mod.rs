//! A model's own chat template, run as Python would.
//!
//! - [`template_renderer`]: a template as a renderer.
//! - [`chat_template`], [`template_program`], [`template_run`]: a template, compiled, and the part of Jinja that runs by itself.
//! - [`message_values`], [`content_protection`]: messages as a template sees them, and text that stays text.
//! - [`template_dialect`], [`template_roles`], [`template_response_format`], [`template_conversations`]: what a template wants, found out by rendering small conversations.
//! - [`template_continuation`]: what follows a sampled turn.
//! - [`template_check`], [`pieces`]: what is wrong with a template.

pub(crate) mod chat_template;
pub(crate) mod content_protection;
pub(crate) mod message_values;
pub(crate) mod pieces;
pub(crate) mod template_check;
pub(crate) mod template_continuation;
pub(crate) mod template_conversations;
pub(crate) mod template_dialect;
pub(crate) mod template_program;
pub(crate) mod template_renderer;
pub(crate) mod template_response_format;
pub(crate) mod template_roles;
pub(crate) mod template_run;
