//! Tools and calls of them, as requests and messages hold them.

pub(crate) mod call_arguments;
pub(crate) mod tool_declarations;
