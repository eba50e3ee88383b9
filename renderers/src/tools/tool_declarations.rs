use fulgurite_types::Tool;
use serde_json::Value;

use crate::RenderError;

/// Reads the tools that a request declares.
///
/// # Errors
/// Names the first that is no declaration, by its index.
pub(crate) fn read_tools(tools: &[Value]) -> Result<Vec<Tool<'_>>, RenderError> {
    let read = |(tool_index, tool)| {
        Tool::read(tool).map_err(|fault| RenderError::Tool { tool_index, message: fault.to_string() })
    };
    tools.iter().enumerate().map(read).collect()
}
