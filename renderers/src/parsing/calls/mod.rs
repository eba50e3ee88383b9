//! Calls of tools as families write them.
//!
//! - [`json_call`]: one JSON object.
//! - [`section_call`]: a name, then JSON.
//! - [`xml_call`], [`parameter_types`]: elements, whose types the tools declare.

pub(crate) mod json_call;
pub(crate) mod parameter_types;
pub(crate) mod section_call;
pub(crate) mod xml_call;
