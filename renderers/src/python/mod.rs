//! What templates and formats need of Python.
//!
//! - [`python_builtins`], [`python_methods`], [`python_time`]: functions and methods.
//! - [`python_text`], [`python_json`], [`python_json_decoder`]: values as Python writes and reads them.

pub(crate) mod python_builtins;
pub(crate) mod python_json;
pub(crate) mod python_json_decoder;
pub(crate) mod python_methods;
pub(crate) mod python_text;
pub(crate) mod python_time;
