//! What templates and formats need of Python.
//!
//! - [`library`]: filters, tests, functions and methods.
//! - [`python_ops`], [`python_attributes`], [`python_format`], [`python_values`], [`python_objects`]: operators and values.
//! - [`python_text`], [`python_repr`], [`python_strings`], [`python_markup`], [`python_json`], [`python_json_decoder`],
//!   [`python_time`]: values as Python writes and reads them.
//! - [`budget`], [`python_error`]: what a template may use up, and what stops it.

pub(crate) mod budget;
pub(crate) mod library;
pub(crate) mod python_attributes;
pub(crate) mod python_error;
pub(crate) mod python_format;
pub(crate) mod python_json;
pub(crate) mod python_json_decoder;
pub(crate) mod python_markup;
pub(crate) mod python_objects;
pub(crate) mod python_ops;
pub(crate) mod python_repr;
pub(crate) mod python_strings;
pub(crate) mod python_text;
pub(crate) mod python_time;
pub(crate) mod python_values;
