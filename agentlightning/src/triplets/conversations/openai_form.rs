//! Tools and tool calls in the form that OpenAI's API takes.

use serde_json::{Value, json};

/// The roles of OpenAI's API.
pub(super) const ROLES: [&str; 6] = ["developer", "system", "user", "assistant", "tool", "function"];

/// A tool call, whose arguments are a text.
pub(super) fn tool_call(
    id: Option<&Value>,
    kind: Option<&Value>,
    name: Option<&Value>,
    arguments: Option<&Value>,
) -> Value {
    let arguments = match arguments {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let kind = kind.cloned().unwrap_or_else(|| json!("function"));
    json!({"id": id, "type": kind, "function": {"name": name, "arguments": arguments}})
}

/// A tool that a model could call.
pub(super) fn tool(function: &Value) -> Result<Value, String> {
    let mut tool = json!({"name": function.get("name"), "description": function.get("description")});
    if tool["description"].is_null() {
        tool["description"] = json!("");
    }
    match function.get("parameters") {
        None => {}
        Some(Value::String(text)) => {
            let unreadable = |error| format!("the parameters of tool {} are not JSON: {error}", tool["name"]);
            tool["parameters"] = serde_json::from_str(text).map_err(unreadable)?;
        }
        Some(parameters) => tool["parameters"] = parameters.clone(),
    }
    Ok(json!({"type": "function", "function": tool}))
}
