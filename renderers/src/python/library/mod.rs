//! What Jinja and Python give templates: filters, tests, functions, methods.

pub(crate) mod arguments;
pub(crate) mod filter_names;
pub(crate) mod filters;
pub(crate) mod functions;
mod html_filters;
pub(crate) mod methods;
mod numbers;
mod sequence_filters;
mod sorting;
mod string_methods;
pub(crate) mod tests;
mod text_filters;
mod wrapping;
