use std::collections::HashMap;

use fulgurite_types::Tool;
use serde_json::Value;

use crate::json_schema::{SchemaDocument, Types};

/// Types of the parameters of a request's tools, for formats that write values without saying their type.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParameterTypes {
    /// The schema of each tool's parameters.
    tools: HashMap<String, Value>,
}

impl ParameterTypes {
    /// The types that tool declarations give: OpenAI's, or bare functions. What cannot be read has no types.
    pub(crate) fn of(tools: &[Value]) -> Self {
        let read = |tool: &Value| {
            let tool = Tool::read(tool).ok()?;
            Some((tool.name.to_owned(), tool.function.get("parameters")?.clone()))
        };
        Self { tools: tools.iter().filter_map(read).collect() }
    }

    /// A parameter's value as JSON text. Where the tool says of which types it is, it is read as one of them: text that
    /// is to be a string stays a string whatever it spells. Where nothing is known, it is JSON if it can be read as
    /// JSON, else a string.
    pub(crate) fn json_text(&self, tool: &str, parameter: &str, written: &str) -> String {
        let Some(Known { types, document, schema }) = self.known(tool, parameter) else {
            let is_json = serde_json::from_str::<Value>(written).is_ok();
            return if is_json { written.trim().to_owned() } else { quoted(written) };
        };
        // What types are guessed, `admits` does not know.
        let admits = |value: &Value| types.has(Types::of(value)) && document.admits(&schema, value);
        let read = read(written);
        match &read {
            // A string is written without quotes.
            Some((value, text)) if !value.is_string() && admits(value) => (*text).to_owned(),
            _ if admits(&Value::from(written)) => quoted(written),
            Some((value, text)) if admits(value) || !types.has(Types::STRING) => (*text).to_owned(),
            _ => quoted(written),
        }
    }

    /// Refuses a name without quotes that has taken something else in, such as `p: 1`, unless the tool declares it.
    pub(crate) fn check_name(&self, tool: &str, parameter: &str) -> Result<(), String> {
        let is_odd = |character: char| character.is_whitespace() || ":=<>\"'`".contains(character);
        let is_declared =
            || self.tools.get(tool).is_some_and(|schema| SchemaDocument::new(schema).property(parameter).is_some());
        match !parameter.contains(is_odd) || is_declared() {
            true => Ok(()),
            false => Err(format!("`{parameter}` is no name of an argument")),
        }
    }

    /// Whether a parameter's value cannot go on behind what is written of it: it is never text, and this is a value.
    pub(crate) fn is_whole(&self, tool: &str, parameter: &str, written: &str) -> bool {
        let is_never_text = self.known(tool, parameter).is_some_and(|known| !known.types.has(Types::STRING));
        is_never_text && read(written).is_some()
    }

    /// What is known of a parameter whose tool narrows its types.
    fn known(&self, tool: &str, parameter: &str) -> Option<Known<'_>> {
        let document = SchemaDocument::new(self.tools.get(tool)?);
        let schema = document.property(parameter)?;
        let types = document.types(&schema);
        (types != Types::ANY).then_some(Known { types, document, schema })
    }
}

/// What a tool says of one parameter.
struct Known<'t> {
    types: Types,
    document: SchemaDocument<'t>,
    schema: Value,
}

/// A value that is written as JSON or as a word of Python's, and its JSON text.
fn read(written: &str) -> Option<(Value, &str)> {
    let value = serde_json::from_str(written).ok();
    value.map(|value| (value, written.trim())).or_else(|| python_word(written))
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
            "list": {"type": "array"}, "any": {}, "capitals": {"type": "STRING"}, "digits": {"pattern": "^[0-9]+$"},
            "named": {"default": "a"}, "double": {"not": {"not": {"type": "string"}}},
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
            ("unit", "\"c\"", r#""c""#),
            ("list", " [1, 2]\n", "[1, 2]"),
            ("capitals", "42", r#""42""#),
            ("digits", "42", r#""42""#),
            ("named", "true", r#""true""#),
            ("double", "42", r#""42""#),
            ("any", "2", "2"),
            ("any", "True", r#""True""#),
            ("unknown", "\"a\"", r#""a""#),
        ] {
            assert_eq!(types.json_text("f", parameter, written), json, "{parameter}: {written}");
            let is_whole = matches!(parameter, "count" | "flag" | "maybe" | "list") && written != "two";
            assert_eq!(types.is_whole("f", parameter, written), is_whole, "{parameter}: {written}");
        }
        assert_eq!(types.json_text("g", "text", "2"), "2");
        assert!(!types.is_whole("g", "count", "2"));
    }

    #[test]
    fn a_value_whose_type_stands_behind_a_reference_stays_text() {
        let definitions = json!({
            "Id": {"type": "string", "enum": ["42", "007", "true", "null", "[1]"]},
            "Text": {"allOf": [{"$ref": "#/$defs/Str"}]}, "Str": {"type": "string"}, "Mixed": {"enum": ["1", 2]},
            "Loop": {"anyOf": [{"$ref": "#/$defs/Loop"}, {"const": "1"}]},
        });
        let properties = json!({
            "id": {"$ref": "#/$defs/Id"}, "text": {"$ref": "#/$defs/Text"}, "mixed": {"$ref": "#/$defs/Mixed"},
            "one": {"const": "1"}, "maybe": {"anyOf": [{"$ref": "#/$defs/Id"}, {"type": "null"}]},
            "loop": {"$ref": "#/$defs/Loop"}, "same": {"$ref": "#/properties/text"},
        });
        let object = json!({"properties": properties, "additionalProperties": {"type": "string"}});
        let parameters = json!({"$defs": definitions, "allOf": [object]});
        let types = ParameterTypes::of(&[json!({"name": "f", "parameters": parameters})]);
        for (parameter, written, json) in [
            ("id", "42", r#""42""#),
            ("id", "true", r#""true""#),
            ("id", "[1]", r#""[1]""#),
            ("id", "null", r#""null""#),
            ("maybe", "007", r#""007""#),
            ("maybe", "null", "null"),
            ("text", "42", r#""42""#),
            ("mixed", "1", r#""1""#),
            ("mixed", "2", "2"),
            ("one", "1", r#""1""#),
            ("loop", "1", r#""1""#),
            ("other", "1", r#""1""#),
        ] {
            assert_eq!(types.json_text("f", parameter, written), json, "{parameter}: {written}");
        }
    }
}
