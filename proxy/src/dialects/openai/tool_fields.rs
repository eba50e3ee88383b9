use serde::Deserialize;
use serde_json::Value;

use crate::dialects::field_checks::{check_tool_count, refuse};
use crate::error::ProxyError;
use crate::requests::structured_output::ForcedCall;

/// A chat request's fields about tools. Read without types, so that each error names its field.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolFields {
    tools: Option<Vec<Value>>,
    pub(crate) tool_choice: Option<Value>,
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
        let choice = ToolChoice::read(self.tool_choice.as_ref())?;
        let shown = choice.shown(tools)?;
        let single_call = single_call.filter(|_| !shown.is_empty());
        Ok(ChatTools { shown, call: choice.call, single_call })
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
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ToolChoice {
    /// A tool that must be called.
    pub(crate) call: Option<ForcedCall>,
    /// The names of those that may be; `None`: all.
    allowed: Option<Vec<String>>,
}

const CHOICE: &str = "tool_choice";

impl ToolChoice {
    /// Reads it. A function is named below `function` in Chat Completions, beside the type in Responses.
    pub(crate) fn read(choice: Option<&Value>) -> Result<Self, ProxyError> {
        let Some(choice) = choice.filter(|choice| !choice.is_null()) else { return Ok(Self::default()) };
        if let Some(mode) = choice.as_str() {
            return Self::of_mode(mode).ok_or_else(|| unknown_choice(choice));
        }
        match (choice.get("type").and_then(Value::as_str), name_of(choice)) {
            (Some("function" | "custom"), Some(name)) => Ok(Self { call: Some(forced(Some(name))), allowed: None }),
            (Some(kind @ ("shell" | "local_shell" | "apply_patch")), _) => {
                Ok(Self { call: Some(forced(Some(kind.to_owned()))), allowed: None })
            }
            (Some("allowed_tools"), _) => Self::among(choice.get("allowed_tools").unwrap_or(choice)),
            _ => Err(unknown_choice(choice)),
        }
    }

    fn of_mode(mode: &str) -> Option<Self> {
        match mode {
            "auto" => Some(Self::default()),
            "none" => Some(Self { call: None, allowed: Some(Vec::new()) }),
            "required" => Some(Self { call: Some(forced(None)), allowed: None }),
            _ => None,
        }
    }

    /// Reads a choice among some of the tools.
    fn among(choice: &Value) -> Result<Self, ProxyError> {
        let mode = choice.get("mode").and_then(Value::as_str).unwrap_or("auto");
        let Some(Self { call, allowed: None }) = Self::of_mode(mode) else {
            return Err(ProxyError::invalid("tool_choice.mode", "tool_choice.mode must be `auto` or `required`"));
        };
        let field = "tool_choice.tools";
        let Some(tools) = choice.get("tools").and_then(Value::as_array) else {
            return Err(ProxyError::invalid(field, format!("{field} must be the tools that may be called")));
        };
        let kind = |tool: &Value| tool.get("type").and_then(Value::as_str).map(str::to_owned);
        let names = tools.iter().map(|tool| name_of(tool).or_else(|| kind(tool)));
        match names.collect::<Option<Vec<String>>>() {
            Some(allowed) => Ok(Self { call, allowed: Some(allowed) }),
            None => Err(ProxyError::invalid(field, format!("{field}: each needs the name of a tool"))),
        }
    }

    /// Those of the declared tools that the model is shown: one that it must not call, it is not shown.
    pub(crate) fn shown(&self, declared: Vec<Value>) -> Result<Vec<Value>, ProxyError> {
        let Some(allowed) = &self.allowed else { return Ok(declared) };
        let is_named = |tool: &Value, name: &String| tool.pointer("/function/name").is_some_and(|known| known == name);
        if let Some(unknown) = allowed.iter().find(|name| !declared.iter().any(|tool| is_named(tool, name))) {
            let field = "tool_choice.tools";
            return Err(ProxyError::invalid(field, format!("{field}: no tool `{unknown}` is declared")));
        }
        Ok(declared.into_iter().filter(|tool| allowed.iter().any(|name| is_named(tool, name))).collect())
    }
}

fn forced(tool: Option<String>) -> ForcedCall {
    ForcedCall { field: CHOICE, tool }
}

fn name_of(tool: &Value) -> Option<String> {
    let name = ["/function/name", "/custom/name", "/name"].iter().find_map(|place| tool.pointer(place));
    name.and_then(Value::as_str).map(str::to_owned)
}

fn unknown_choice(choice: &Value) -> ProxyError {
    let message = format!(
        "tool_choice {choice} is not supported, only \"auto\", \"none\", \"required\", the name of a tool and allowed_tools"
    );
    ProxyError::invalid(CHOICE, message)
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
    fn of_some_allowed_tools_the_others_are_not_shown() {
        let tool = |name: &str| json!({ "type": "function", "function": { "name": name } });
        let allowed = |mode: &str| {
            let choice = json!({ "mode": mode, "tools": [tool("g")] });
            let choice = json!({ "type": "allowed_tools", "allowed_tools": choice });
            check(json!({ "tools": [tool("f"), tool("g")], "tool_choice": choice })).unwrap()
        };
        assert_eq!(allowed("auto"), ChatTools { shown: vec![tool("g")], call: None, single_call: None });
        assert_eq!(allowed("required").call, Some(ForcedCall { field: "tool_choice", tool: None }));
        let flat = json!({ "type": "allowed_tools", "mode": "auto", "tools": [{ "type": "function", "name": "f" }] });
        assert_eq!(check(json!({ "tools": [tool("f"), tool("g")], "tool_choice": flat })).unwrap().shown, [tool("f")]);
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
            ("tool_choice", json!({ "type": "allowed_tools" }), "tool_choice.tools"),
            ("tool_choice", json!({ "type": "allowed_tools", "mode": "none", "tools": [] }), "tool_choice.mode"),
            ("tool_choice", json!({ "type": "allowed_tools", "tools": [{ "name": "g" }] }), "tool_choice.tools"),
            ("functions", json!([{ "name": "f" }]), "functions"),
            ("function_call", json!({ "name": "f" }), "function_call"),
        ] {
            assert_eq!(check(with(key, value.clone())), Err(parameter.to_owned()), "{value}");
        }
    }
}
