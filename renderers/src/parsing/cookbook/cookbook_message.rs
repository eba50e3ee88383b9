use serde_json::Value;

use crate::parsing::Termination;

/// The cookbook's message and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CookbookMessage {
    /// The message as the cookbook writes it as JSON: `role`, `content` (a string or parts), and where there are any
    /// `tool_calls` and `unparsed_tool_calls`.
    pub message: Value,
    /// How it ended.
    pub termination: Termination,
}
