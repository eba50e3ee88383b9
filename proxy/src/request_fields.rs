//! Names of fields that requests have alike in every dialect.

/// Arguments for a model's chat template; recorded unchanged.
pub(crate) const TEMPLATE_ARGUMENTS: &str = "chat_template_kwargs";
