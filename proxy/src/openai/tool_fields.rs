use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::ProxyError;
use crate::field_checks::refuse;

/// What a chat request says of tools. Read as they come, so that each fault can be told by its own name.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolFields {
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    functions: Option<Vec<Value>>,
    function_call: Option<Value>,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

impl ToolFields {
    /// The tools that the model is shown: with `tool_choice` `none` it is shown none.
    pub(crate) fn check(self) -> Result<Vec<Value>, ProxyError> {
        if self.functions.is_some_and(|functions| !functions.is_empty()) {
            refuse("functions", "are not supported; declare the functions as tools")?;
        }
        if self.function_call.is_some_and(|choice| !is_one_of(&choice, &["auto", "none"])) {
            refuse("function_call", "is not supported; declare the functions as tools")?;
        }
        let mut tools = self.tools.unwrap_or_default();
        for (index, tool) in tools.iter().enumerate() {
            check_tool(index, tool)?;
        }
        if !may_call(self.tool_choice.as_ref())? {
            tools.clear();
        }
        if self.parallel_tool_calls == Some(false) && !tools.is_empty() {
            refuse("parallel_tool_calls", "false is not supported: the model decides how many tools it calls")?;
        }
        Ok(tools)
    }
}

/// Whether a `tool_choice` lets the model call tools. It cannot be made to.
pub(crate) fn may_call(tool_choice: Option<&Value>) -> Result<bool, ProxyError> {
    match tool_choice {
        None | Some(Value::Null) => Ok(true),
        Some(choice) if is_one_of(choice, &["auto"]) => Ok(true),
        Some(choice) if is_one_of(choice, &["none"]) => Ok(false),
        Some(choice) => Err(ProxyError::invalid(
            "tool_choice",
            format!(
                "tool_choice {choice} is not supported, only \"auto\" and \"none\": no call can be forced on the model"
            ),
        )),
    }
}

fn is_one_of(choice: &Value, known: &[&str]) -> bool {
    choice.as_str().is_some_and(|choice| known.contains(&choice))
}

/// A tool must be a function with a name, whose parameters are a schema if there are any.
fn check_tool(index: usize, tool: &Value) -> Result<(), ProxyError> {
    let field = |name: &str| format!("tools[{index}]{name}");
    if !tool.is_object() {
        return refuse(&field(""), "must be an object");
    }
    match tool.get("type") {
        Some(Value::String(kind)) if kind == "function" => {}
        Some(Value::String(kind)) => {
            return refuse(&field(".type"), &format!("is `{kind}`; only tools of type `function` are supported"));
        }
        _ => return refuse(&field(".type"), "must be `function`"),
    }
    let Some(function) = tool.get("function").and_then(Value::as_object) else {
        return refuse(&field(".function"), "must be an object with the function's name");
    };
    if function.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        return refuse(&field(".function.name"), "must be the function's name");
    }
    let parameters = function.get("parameters");
    if parameters.is_some_and(|parameters| !(parameters.is_object() || parameters.is_null())) {
        return refuse(&field(".function.parameters"), "must be a JSON schema");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(body: Value) -> Result<Vec<Value>, String> {
        let fields: ToolFields = serde_json::from_value(body).unwrap();
        fields.check().map_err(|error| match error {
            ProxyError::InvalidRequest { message, parameter, .. } => {
                let parameter = parameter.unwrap();
                assert!(message.starts_with(&parameter), "{message}");
                parameter
            }
            other => panic!("{other:?}"),
        })
    }

    fn with(key: &str, value: Value) -> Value {
        let mut body = json!({ "tools": [{ "type": "function", "function": { "name": "f" } }] });
        body[key] = value;
        body
    }

    #[test]
    fn the_model_is_shown_the_tools_unless_it_is_to_call_none() {
        for (body, shown) in [
            (json!({}), 0),
            (json!({ "tools": null, "tool_choice": "auto", "parallel_tool_calls": false }), 0),
            (with("tool_choice", json!(null)), 1),
            (with("tool_choice", json!("auto")), 1),
            (with("tool_choice", json!("none")), 0),
            (with("parallel_tool_calls", json!(true)), 1),
            (with("functions", json!([])), 1),
            (with("function_call", json!("none")), 1),
        ] {
            assert_eq!(check(body.clone()).map(|tools| tools.len()), Ok(shown), "{body}");
        }
    }

    #[test]
    fn every_fault_names_its_field() {
        let named = json!({ "type": "function", "function": { "name": "f" } });
        for (key, value, parameter) in [
            ("tools", json!(["f"]), "tools[0]"),
            ("tools", json!([named, {}]), "tools[1].type"),
            ("tools", json!([{ "type": "web_search" }]), "tools[0].type"),
            ("tools", json!([{ "type": "custom", "custom": { "name": "f" } }]), "tools[0].type"),
            ("tools", json!([{ "type": "function", "name": "f" }]), "tools[0].function"),
            ("tools", json!([{ "type": "function", "function": {} }]), "tools[0].function.name"),
            ("tools", json!([{ "type": "function", "function": { "name": "" } }]), "tools[0].function.name"),
            (
                "tools",
                json!([{ "type": "function", "function": { "name": "f", "parameters": [] } }]),
                "tools[0].function.parameters",
            ),
            ("tool_choice", json!("required"), "tool_choice"),
            ("tool_choice", named.clone(), "tool_choice"),
            ("tool_choice", json!({ "type": "allowed_tools" }), "tool_choice"),
            ("parallel_tool_calls", json!(false), "parallel_tool_calls"),
            ("functions", json!([{ "name": "f" }]), "functions"),
            ("function_call", json!({ "name": "f" }), "function_call"),
        ] {
            assert_eq!(check(with(key, value.clone())), Err(parameter.to_owned()), "{value}");
        }
    }
}
