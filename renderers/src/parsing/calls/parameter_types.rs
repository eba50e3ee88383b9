use std::collections::HashMap;

use fulgurite_types::Tool;
use serde_json::{Map, Value};

/// Types of the parameters of a request's tools, for formats that write values without saying their type.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParameterTypes {
    /// Schema of each parameter, by tool and parameter.
    tools: HashMap<String, Map<String, Value>>,
}

impl ParameterTypes {
    /// The types that tool declarations give: OpenAI's, or bare functions. What cannot be read has no types.
    pub(crate) fn of(tools: &[Value]) -> Self {
        let read = |tool: &Value| {
            let tool = Tool::read(tool).ok()?;
            let properties = tool.function.get("parameters")?.get("properties")?.as_object()?;
            Some((tool.name.to_owned(), properties.clone()))
        };
        Self { tools: tools.iter().filter_map(read).collect() }
    }

    /// The names of the types that a tool allows a parameter; empty where it does not say.
    pub(crate) fn allowed(&self, tool: &str, parameter: &str) -> Vec<&str> {
        let schema = self.tools.get(tool).and_then(|parameters| parameters.get(parameter));
        schema.map(allowed_types).unwrap_or_default()
    }

    /// A parameter's value as JSON text. Where the tool says of which types it is, it is read as one of them: text that
    /// is to be a string stays a string whatever it spells. Where nothing is known, it is JSON if it can be read as
    /// JSON, else a string.
    pub(crate) fn json_text(&self, tool: &str, parameter: &str, written: &str) -> String {
        let types = self.allowed(tool, parameter);
        let value: Option<Value> = serde_json::from_str(written).ok();
        if types.is_empty() {
            return if value.is_some() { written.trim().to_owned() } else { quoted(written) };
        }
        let value = value.map(|value| (value, written)).or_else(|| python_word(written));
        match value {
            // A string is written without quotes.
            Some((value, text)) if !value.is_string() && types.iter().any(|name| is_of_type(&value, name)) => {
                text.trim().to_owned()
            }
            Some((_, text)) if !types.contains(&"string") => text.trim().to_owned(),
            _ => quoted(written),
        }
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Python's spelling of what JSON writes in small letters.
fn python_word(text: &str) -> Option<(Value, &'static str)> {
    match text.trim() {
        "True" => Some((true.into(), "true")),
        "False" => Some((false.into(), "false")),
        "None" => Some((Value::Null, "null")),
        _ => None,
    }
}

/// The names of the types that a schema allows; empty where it does not say.
fn allowed_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(name)) => return vec![name],
        Some(Value::Array(names)) => return names.iter().filter_map(Value::as_str).collect(),
        _ => {}
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(type_name).collect();
    }
    let alternatives = ["anyOf", "oneOf"].iter().find_map(|key| schema.get(*key)?.as_array());
    let types: Vec<Vec<&str>> = alternatives.into_iter().flatten().map(allowed_types).collect();
    // An alternative that may be anything allows anything.
    if types.iter().any(Vec::is_empty) { Vec::new() } else { types.concat() }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_of_type(value: &Value, name: &str) -> bool {
    match name {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        name => type_name(value) == name,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_is_read_as_what_the_tool_wants() {
        let any_of = json!([{"type": "number"}, {"type": "null"}]);
        let properties = json!({
            "text": {"type": "string"}, "count": {"type": "integer"}, "flag": {"type": "boolean"},
            "either": {"type": ["string", "integer"]}, "maybe": {"anyOf": any_of}, "unit": {"enum": ["c", "f"]},
            "list": {"type": "array"}, "any": {},
        });
        let tool = json!({"type": "function", "function": {"name": "f", "parameters": {"properties": properties}}});
        let types = ParameterTypes::of(&[tool]);
        for (parameter, written, json) in [
            ("text", "2", r#""2""#),
            ("text", "\"a\"", r#""\"a\"""#),
            ("text", "None", r#""None""#),
            ("text", "", r#""""#),
            ("count", "2", "2"),
            ("count", "two", r#""two""#),
            ("flag", "True", "true"),
            ("flag", "false", "false"),
            ("either", "2", "2"),
            ("either", "2.5", r#""2.5""#),
            ("either", "None", r#""None""#),
            ("maybe", "None", "null"),
            ("maybe", "2.5", "2.5"),
            ("unit", "1", r#""1""#),
            ("list", " [1, 2]\n", "[1, 2]"),
            ("any", "2", "2"),
            ("any", "True", r#""True""#),
            ("unknown", "\"a\"", r#""a""#),
        ] {
            assert_eq!(types.json_text("f", parameter, written), json, "{parameter}: {written}");
        }
        assert_eq!(types.json_text("g", "text", "2"), "2");
    }
}
