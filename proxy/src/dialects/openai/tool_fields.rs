use serde::Deserialize;
use serde_json::Value;

use crate::call::structured_output::ForcedCall;
use crate::dialects::field_checks::{check_tool_count, refuse};
use crate::error::ProxyError;

/// A chat request's fields about tools. Read without types, so that each error names its field.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolFields {
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
    functions: Option<Vec<Value>>,
    function_call: Option<Value>,
}

impl ToolFields {
    /// The tools that the model is shown: with `tool_choice` `none` it is shown none.
    pub(crate) fn check(self) -> Result<ChatTools, ProxyError> {
        if self.functions.is_some_and(|functions| !functions.is_empty()) {
            refuse("functions", "are not supported; declare the functions as tools")?;
        }
        if self.function_call.is_some_and(|choice| !["auto", "none"].iter().any(|known| choice == *known)) {
            refuse("function_call", "is not supported; declare the functions as tools")?;
        }
        let tools = self.tools.unwrap_or_default();
        check_tool_count(&tools)?;
        for (index, tool) in tools.iter().enumerate() {
            check_tool(index, tool)?;
        }
        let single_call =
            (self.parallel_tool_calls == Some(false) && !tools.is_empty()).then_some("parallel_tool_calls");
        Ok(match ToolChoice::read(self.tool_choice.as_ref())? {
            ToolChoice::Auto => ChatTools { shown: tools, call: None, single_call },
            ToolChoice::Forced(call) => ChatTools { shown: tools, call: Some(call), single_call },
            ToolChoice::None => ChatTools::default(),
        })
    }
}

/// A chat request's tools and constraints on calls.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ChatTools {
    /// Those that the model is shown.
    pub(crate) shown: Vec<Value>,
    pub(crate) call: Option<ForcedCall>,
    /// The field that requires one call at most.
    pub(crate) single_call: Option<&'static str>,
}

/// A `tool_choice` of OpenAI's.
#[derive(Debug, PartialEq)]
pub(crate) enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool is to be called.
    None,
    /// A tool must be called.
    Forced(ForcedCall),
}

impl ToolChoice {
    /// Reads it. A function is named below `function` in Chat Completions, beside the type in Responses.
    pub(crate) fn read(choice: Option<&Value>) -> Result<Self, ProxyError> {
        let field = "tool_choice";
        let Some(choice) = choice.filter(|choice| !choice.is_null()) else { return Ok(Self::Auto) };
        let kind = choice.get("type").and_then(Value::as_str);
        let name = choice.pointer("/function/name").or_else(|| choice.get("name")).and_then(Value::as_str);
        match (choice.as_str(), kind, name) {
            (Some("auto"), ..) => Ok(Self::Auto),
            (Some("none"), ..) => Ok(Self::None),
            (Some("required"), ..) => Ok(Self::Forced(ForcedCall { field, tool: None })),
            (None, Some("function"), Some(name)) => Ok(Self::Forced(ForcedCall { field, tool: Some(name.to_owned()) })),
            _ => Err(ProxyError::invalid(
                field,
                format!(
                    "tool_choice {choice} is not supported, only \"auto\", \"none\", \"required\" and the name of a function"
                ),
            )),
        }
    }
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
    use crate::dialects::field_checks::refused_field;

    fn check(body: Value) -> Result<ChatTools, String> {
        let fields: ToolFields = serde_json::from_value(body).unwrap();
        fields.check().map_err(refused_field)
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
            assert_eq!(check(body.clone()).map(|tools| (tools.shown.len(), tools.call)), Ok((shown, None)), "{body}");
        }
    }

    #[test]
    fn a_call_can_be_forced_and_its_number_limited() {
        let forced = |tool: Option<&str>| Some(ForcedCall { field: "tool_choice", tool: tool.map(str::to_owned) });
        let named = json!({ "type": "function", "function": { "name": "f" } });
        assert_eq!(check(with("tool_choice", json!("required"))).unwrap().call, forced(None));
        assert_eq!(check(with("tool_choice", named)).unwrap().call, forced(Some("f")));
        assert_eq!(
            check(with("tool_choice", json!({ "type": "function", "name": "f" }))).unwrap().call,
            forced(Some("f"))
        );
        assert_eq!(check(with("parallel_tool_calls", json!(false))).unwrap().single_call, Some("parallel_tool_calls"));
        assert_eq!(check(json!({ "parallel_tool_calls": false })).unwrap().single_call, None);
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
            ("tool_choice", json!("perhaps"), "tool_choice"),
            ("tool_choice", json!({ "type": "function" }), "tool_choice"),
            ("tool_choice", json!({ "type": "allowed_tools" }), "tool_choice"),
            ("functions", json!([{ "name": "f" }]), "functions"),
            ("function_call", json!({ "name": "f" }), "function_call"),
        ] {
            assert_eq!(check(with(key, value.clone())), Err(parameter.to_owned()), "{value}");
        }
    }
}
