use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::dialects::field_checks::{check_tool_count, refuse};
use crate::error::ProxyError;
use crate::requests::structured_output::ForcedCall;

/// A request's fields about tools. Read without types, so that each error names its field.
#[derive(Debug, Deserialize)]
pub(super) struct ToolFields {
    pub(super) tools: Option<Vec<Value>>,
    pub(super) tool_choice: Option<Value>,
}

/// The tools of a request.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Tools {
    /// Those that the model may call, as OpenAI declares them. With `tool_choice` `none` there are none.
    pub(crate) shown: Vec<Value>,
    pub(super) call: Option<ForcedCall>,
    /// The field that requires one call at most.
    pub(super) single_call: Option<&'static str>,
    /// Tools that Anthropic's own servers would run: agents always send them, and work without them.
    pub(super) ignored: Vec<Value>,
    /// Those that say whether a stream is to send their calls as they are sampled (`eager_input_streaming`).
    pub(super) eager: Vec<(String, bool)>,
}

/// What the types of tools that Anthropic's own servers run begin with. Others without a schema are the client's, and
/// only models that were trained on them know how they are called.
const OF_SERVERS: [&str; 6] =
    ["web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "advisor_", "mcp_toolset"];

impl ToolFields {
    pub(super) fn check(self) -> Result<Tools, ProxyError> {
        let mut tools = Tools::default();
        let declared = self.tools.unwrap_or_default();
        check_tool_count(&declared)?;
        for (index, tool) in declared.into_iter().enumerate() {
            match declaration(index, &tool)? {
                Some(declaration) => {
                    let name = tool.get("name").and_then(Value::as_str).map(str::to_owned);
                    let is_eager = tool.get("eager_input_streaming").and_then(Value::as_bool);
                    tools.eager.extend(name.zip(is_eager));
                    tools.shown.push(declaration);
                }
                None => tools.ignored.push(tool),
            }
        }
        if let Some(choice) = self.tool_choice {
            read_choice(&choice, &mut tools)?;
        }
        Ok(tools)
    }
}

/// A tool of the client as OpenAI declares it; `None` for one that is not the client's.
fn declaration(index: usize, tool: &Value) -> Result<Option<Value>, ProxyError> {
    let field = |name: &str| format!("tools[{index}]{name}");
    if !tool.is_object() {
        refuse(&field(""), "must be an object")?;
    }
    match tool.get("type") {
        None | Some(Value::Null) => {}
        Some(Value::String(kind)) if kind == "custom" => {}
        Some(Value::String(kind)) if OF_SERVERS.iter().any(|of_servers| kind.starts_with(of_servers)) => {
            return Ok(None);
        }
        Some(Value::String(kind)) => {
            let why =
                format!("is `{kind}`, whose parameters this model does not know; declare it with an input_schema");
            refuse(&field(".type"), &why)?;
        }
        Some(_) => refuse(&field(".type"), "must be a string")?,
    }
    if tool.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        refuse(&field(".name"), "must be the tool's name")?;
    }
    if !tool.get("input_schema").is_some_and(Value::is_object) {
        refuse(&field(".input_schema"), "must be a JSON schema")?;
    }
    let mut function = Map::new();
    for (name, from) in
        [("name", "name"), ("description", "description"), ("parameters", "input_schema"), ("strict", "strict")]
    {
        if let Some(value) = tool.get(from).filter(|value| !value.is_null()) {
            function.insert(name.to_owned(), value.clone());
        }
    }
    Ok(Some(json!({ "type": "function", "function": function })))
}

fn read_choice(choice: &Value, tools: &mut Tools) -> Result<(), ProxyError> {
    let field = "tool_choice";
    let name = choice.get("name").and_then(Value::as_str);
    match (choice.get("type").and_then(Value::as_str), name) {
        (Some("auto"), _) => {}
        (Some("none"), _) => tools.shown.clear(),
        (Some("any"), _) => tools.call = Some(ForcedCall { field, tool: None }),
        (Some("tool"), Some(name)) => tools.call = Some(ForcedCall { field, tool: Some(name.to_owned()) }),
        (Some("tool"), None) => refuse("tool_choice.name", "must be the tool's name")?,
        _ => refuse(field, &format!("{choice} is not known; its type is auto, any, tool or none"))?,
    }
    if choice.get("disable_parallel_tool_use") == Some(&Value::Bool(true)) && !tools.shown.is_empty() {
        tools.single_call = Some("tool_choice.disable_parallel_tool_use");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn check(body: Value) -> Result<Tools, String> {
        let fields: ToolFields = serde_json::from_value(body).unwrap();
        fields.check().map_err(refused_field)
    }

    fn tool(name: &str) -> Value {
        json!({ "name": name, "input_schema": { "type": "object" } })
    }

    #[test]
    fn the_clients_tools_are_shown_and_those_of_anthropics_servers_are_not() {
        let search = json!({ "type": "web_search_20250305", "name": "web_search", "max_uses": 8 });
        let mut described = tool("g");
        described["type"] = json!("custom");
        described["description"] = json!("Does g.");
        described["cache_control"] = json!({ "type": "ephemeral" });
        let tools = check(json!({ "tools": [tool("f"), search, described] })).unwrap();
        let shown = json!([
            { "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } },
            { "type": "function",
              "function": { "name": "g", "description": "Does g.", "parameters": { "type": "object" } } },
        ]);
        assert_eq!((json!(tools.shown), tools.ignored), (shown, vec![search]));
    }

    #[test]
    fn a_tool_may_say_whether_its_calls_are_sent_as_they_are_sampled() {
        let named = |name: &str, eager: Value| {
            let mut tool = tool(name);
            tool["eager_input_streaming"] = eager;
            tool
        };
        let tools = json!([named("a", json!(false)), named("b", json!(true)), named("c", json!(null)), tool("d")]);
        let expected = [("a".to_owned(), false), ("b".to_owned(), true)];
        assert_eq!(check(json!({ "tools": tools })).unwrap().eager, expected);
    }

    #[test]
    fn every_tool_that_anthropics_servers_run_is_taken_and_not_shown() {
        for kind in [
            "web_search_20260318",
            "web_fetch_20250910",
            "code_execution_20260521",
            "tool_search_tool_bm25",
            "tool_search_tool_regex_20251119",
            "advisor_20260301",
            "mcp_toolset",
        ] {
            let tool = json!({ "type": kind, "name": "x" });
            let tools = check(json!({ "tools": [tool] })).unwrap();
            assert_eq!((tools.shown, tools.ignored), (vec![], vec![tool]), "{kind}");
        }
    }

    #[test]
    fn a_choice_of_none_shows_no_tool() {
        for (choice, shown) in [
            (json!(null), 1),
            (json!({ "type": "auto" }), 1),
            (json!({ "type": "auto", "disable_parallel_tool_use": false }), 1),
            (json!({ "type": "none" }), 0),
        ] {
            let tools = check(json!({ "tools": [tool("f")], "tool_choice": choice })).unwrap();
            assert_eq!(tools.shown.len(), shown, "{choice}");
        }
        let parallel = json!({ "type": "auto", "disable_parallel_tool_use": true });
        assert_eq!(check(json!({ "tool_choice": parallel })), Ok(Tools::default()));
    }

    #[test]
    fn a_call_can_be_forced_and_its_number_limited() {
        let check = |choice: Value| {
            let tools = check(json!({ "tools": [tool("f")], "tool_choice": choice })).unwrap();
            (tools.shown.len(), tools.call.map(|call| call.tool), tools.single_call)
        };
        assert_eq!(check(json!({ "type": "any" })), (1, Some(None), None));
        let single = Some("tool_choice.disable_parallel_tool_use");
        let named = json!({ "type": "tool", "name": "f", "disable_parallel_tool_use": true });
        assert_eq!(check(named), (1, Some(Some("f".to_owned())), single));
        assert_eq!(check(json!({ "type": "auto", "disable_parallel_tool_use": true })), (1, None, single));
    }

    #[test]
    fn every_fault_names_its_field() {
        for (key, value, parameter) in [
            ("tools", json!(["f"]), "tools[0]"),
            ("tools", json!([tool("f"), { "input_schema": {} }]), "tools[1].name"),
            ("tools", json!([tool("")]), "tools[0].name"),
            ("tools", json!([{ "name": "f" }]), "tools[0].input_schema"),
            ("tools", json!([{ "name": "f", "input_schema": [] }]), "tools[0].input_schema"),
            ("tools", json!([{ "type": "bash_20250124", "name": "bash" }]), "tools[0].type"),
            ("tools", json!([{ "type": "browser_toolset_20260801" }]), "tools[0].type"),
            ("tools", json!([{ "type": "computer_toolset_20260801" }]), "tools[0].type"),
            ("tools", json!([{ "type": 1, "name": "bash" }]), "tools[0].type"),
            ("tool_choice", json!({ "type": "tool" }), "tool_choice.name"),
            ("tool_choice", json!({ "type": "every" }), "tool_choice"),
            ("tool_choice", json!("auto"), "tool_choice"),
        ] {
            let mut body = json!({ "tools": [tool("f")] });
            body[key] = value.clone();
            assert_eq!(check(body), Err(parameter.to_owned()), "{value}");
        }
    }
}
