//! Names of fields that requests have alike in every dialect.

/// What a request tells a model's chat template; kept in the record as it came.
pub(crate) const TEMPLATE_ARGUMENTS: &str = "chat_template_kwargs";
