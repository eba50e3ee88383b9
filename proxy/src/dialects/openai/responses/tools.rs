use serde_json::{Map, Value, json};

use crate::dialects::field_checks::{check_tool_count, refuse};
use crate::error::ProxyError;

/// The tools that a request declares.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DeclaredTools {
    /// Functions, in the shape of chats.
    pub(super) functions: Vec<Value>,
    /// All others, which other servers would have to run: agents send them whether or not there is such a server.
    pub(super) ignored: Vec<Value>,
}

impl DeclaredTools {
    pub(super) fn read(tools: Vec<Value>) -> Result<Self, ProxyError> {
        check_tool_count(&tools)?;
        let mut declared = Self::default();
        for (index, tool) in tools.into_iter().enumerate() {
            match tool.get("type").and_then(Value::as_str) {
                Some("function") => declared.functions.push(function(index, &tool)?),
                Some(_) => declared.ignored.push(tool),
                None => refuse(&format!("tools[{index}].type"), "must be the tool's type, such as `function`")?,
            }
        }
        Ok(declared)
    }
}

/// A function as chats declare it. Null fields are not shown to the model.
fn function(index: usize, tool: &Value) -> Result<Value, ProxyError> {
    let field = |name: &str| format!("tools[{index}].{name}");
    if tool.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
        refuse(&field("name"), "must be the function's name")?;
    }
    if tool.get("parameters").is_some_and(|parameters| !(parameters.is_object() || parameters.is_null())) {
        refuse(&field("parameters"), "must be a JSON schema")?;
    }
    let known = ["name", "description", "parameters", "strict"];
    let present = known.iter().filter_map(|name| Some((*name, tool.get(name).filter(|value| !value.is_null())?)));
    let function: Map<String, Value> = present.map(|(name, value)| (name.to_owned(), value.clone())).collect();
    Ok(json!({ "type": "function", "function": function }))
}

/// A function of a chat as Responses declares it.
pub(super) fn declaration(tool: &Value) -> Value {
    let mut declaration = Map::from_iter([("type".to_owned(), json!("function"))]);
    let function = tool.get("function").and_then(Value::as_object);
    declaration.extend(function.into_iter().flatten().map(|(field, value)| (field.clone(), value.clone())));
    declaration.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_shown_and_all_others_are_kept() {
        let parameters = json!({ "type": "object", "properties": {} });
        let namespace = json!({ "type": "namespace", "name": "git", "tools": [{ "type": "function", "name": "log" }] });
        let named =
            json!({ "type": "function", "name": "f", "description": null, "parameters": parameters, "strict": false });
        let tools = vec![named, json!({ "type": "web_search" }), namespace.clone()];
        let declared = DeclaredTools::read(tools).unwrap();
        let function = json!({ "name": "f", "parameters": parameters, "strict": false });
        assert_eq!(declared.functions, [json!({ "type": "function", "function": function })]);
        let declaration = declaration(&declared.functions[0]);
        assert_eq!(DeclaredTools::read(vec![declaration]).unwrap().functions, declared.functions);
        assert_eq!(declared.ignored, [json!({ "type": "web_search" }), namespace]);
    }

    #[test]
    fn every_fault_names_its_field() {
        for (tool, parameter) in [
            (json!("f"), "tools[0].type"),
            (json!({ "name": "f" }), "tools[0].type"),
            (json!({ "type": "function", "function": { "name": "f" } }), "tools[0].name"),
            (json!({ "type": "function", "name": "" }), "tools[0].name"),
            (json!({ "type": "function", "name": "f", "parameters": "{}" }), "tools[0].parameters"),
        ] {
            match DeclaredTools::read(vec![tool.clone()]) {
                Err(ProxyError::InvalidRequest { parameter: found, .. }) => {
                    assert_eq!(found.as_deref(), Some(parameter), "{tool}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
