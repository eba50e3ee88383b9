//! Calls of tools as families write them.
//!
//! - [`json_call`], [`call_list`]: one JSON object, or a list of them.
//! - [`brace_call`]: a name, then braces that are not quite JSON.
//! - [`section_call`]: a name, then JSON.
//! - [`xml_call`], [`pair_call`], [`parameter_types`]: elements, whose types the tools declare.
//! - [`dsml_call`]: elements that say of which type they are.
//! - [`value_scan`], [`written_arguments`]: where a JSON value ends, and what arguments come to.

pub(crate) mod brace_call;
pub(crate) mod call_list;
pub(crate) mod dsml_call;
pub(crate) mod json_call;
pub(crate) mod pair_call;
pub(crate) mod parameter_types;
pub(crate) mod section_call;
pub(crate) mod value_scan;
pub(crate) mod written_arguments;
pub(crate) mod xml_call;
