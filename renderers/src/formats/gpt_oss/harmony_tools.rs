use serde_json::{Map, Value};

use crate::json_schema::SchemaDocument;
use crate::python::python_json::{JsonStyle, dumps};
use fulgurite_types::Tool;

/// Tools as Harmony declares them: a TypeScript namespace of functions, which looks like TypeScript and need not be.
///
/// Without `cookbook_exact` it follows OpenAI's description of Harmony where tinker-cookbook does not: the parameters
/// open on the line of their function, a default that is one of an enum stands without quotes; and it says what the
/// cookbook leaves out (`null`, constants, enums of numbers, brackets around a union in a list, what a reference means).
pub(crate) fn namespace(tools: &[Tool<'_>], cookbook_exact: bool) -> String {
    let functions: Vec<String> = tools.iter().map(|tool| function(tool, cookbook_exact)).collect();
    format!(
        "# Tools\n\n## functions\n\nnamespace functions {{\n\n{}\n\n}} // namespace functions",
        functions.join("\n\n")
    )
}

fn function(tool: &Tool<'_>, cookbook_exact: bool) -> String {
    let description = match tool.description() {
        "" => String::new(),
        text => format!("// {text}\n"),
    };
    let parameters = tool.parameters();
    let resolved = (!cookbook_exact).then(|| resolved(&parameters)).flatten();
    let parameters = TypeScript { cookbook_exact }.parameters(resolved.as_ref().unwrap_or(&parameters));
    format!("{description}type {} = {parameters} => any;", tool.name)
}

/// Parameters in which all that is referred to stands where it is referred to. None where nothing is, or where that would
/// not end.
fn resolved(parameters: &Value) -> Option<Value> {
    let document = SchemaDocument::new(parameters);
    document.expanded(parameters).filter(|expanded| expanded != parameters)
}

struct TypeScript {
    cookbook_exact: bool,
}

impl TypeScript {
    fn parameters(&self, schema: &Value) -> String {
        let Some(properties) = properties(schema).filter(|properties| !properties.is_empty()) else {
            return "()".to_owned();
        };
        let opening = match text_field(schema, "description") {
            Some(description) => format!("(_: // {description}\n{{"),
            None if self.cookbook_exact => "(_:\n{".to_owned(),
            None => "(_: {".to_owned(),
        };
        let mut lines = vec![opening];
        for (name, property) in properties {
            lines.extend(comments(property).into_iter().map(|comment| format!("// {comment}")));
            let optional = if is_required(schema, name) { "" } else { "?" };
            let default = self.default_comment(property);
            lines.push(format!("{name}{optional}: {},{default}", self.type_of(property)));
        }
        lines.push("})".to_owned());
        lines.join("\n")
    }

    fn default_comment(&self, property: &Value) -> String {
        match property.get("default") {
            None => String::new(),
            Some(Value::String(text)) if !self.cookbook_exact && property.get("enum").is_some() => {
                format!(" // default: {text}")
            }
            Some(default) => format!(" // default: {}", json(default)),
        }
    }

    fn type_of(&self, schema: &Value) -> String {
        if let Some(alternatives) = ["oneOf", "anyOf"].iter().find_map(|key| schema.get(*key)?.as_array()) {
            return union(alternatives.iter().map(|alternative| self.type_of(alternative)));
        }
        if !self.cookbook_exact
            && let Some(constant) = schema.get("const")
        {
            return json(constant);
        }
        let enumeration = schema.get("enum").and_then(Value::as_array);
        let base = match (schema.get("type"), enumeration) {
            (Some(Value::Array(types)), _) => {
                return union(types.iter().map(|name| self.type_of(&Value::from_iter([("type", name.clone())]))));
            }
            (Some(Value::String(name)), Some(values)) if name == "string" => {
                return union(values.iter().map(json));
            }
            (_, Some(values)) if !self.cookbook_exact => return union(values.iter().map(json)),
            (Some(Value::String(name)), _) => self.named_type(name, schema),
            _ => "any".to_owned(),
        };
        match schema.get("nullable") {
            Some(Value::Bool(true)) => format!("{base} | null"),
            _ => base,
        }
    }

    fn named_type(&self, name: &str, schema: &Value) -> String {
        match name {
            "string" | "boolean" => name.to_owned(),
            "number" | "integer" => "number".to_owned(),
            "null" if !self.cookbook_exact => "null".to_owned(),
            "array" => {
                let items = schema.get("items").map_or_else(|| "any".to_owned(), |items| self.type_of(items));
                match !self.cookbook_exact && items.contains(" | ") {
                    true => format!("({items})[]"),
                    false => format!("{items}[]"),
                }
            }
            "object" => self.object(schema),
            _ => "any".to_owned(),
        }
    }

    /// An object inside another, on one line.
    fn object(&self, schema: &Value) -> String {
        let field = |(name, property): (&String, &Value)| {
            let optional = if is_required(schema, name) { "" } else { "?" };
            format!("{name}{optional}: {}", self.type_of(property))
        };
        let fields: Vec<String> = properties(schema).into_iter().flatten().map(field).collect();
        format!("{{ {} }}", fields.join(", "))
    }
}

/// The properties of an object's schema.
fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    match schema.get("type")?.as_str()? {
        "object" => schema.get("properties")?.as_object(),
        _ => None,
    }
}

fn is_required(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|required| required.iter().any(|required| required == name))
}

/// The comment above a property.
fn comments(schema: &Value) -> Vec<String> {
    let mut comments = Vec::new();
    if let Some(title) = text_field(schema, "title") {
        comments.extend([title.to_owned(), String::new()]);
    }
    comments.extend(text_field(schema, "description").map(str::to_owned));
    let examples = schema.get("examples").and_then(Value::as_array).filter(|examples| !examples.is_empty());
    if let Some(examples) = examples {
        comments.push("Examples:".to_owned());
        comments.extend(examples.iter().map(|example| format!("- {}", json(example))));
    }
    comments
}

fn text_field<'s>(schema: &'s Value, name: &str) -> Option<&'s str> {
    schema.get(name)?.as_str().filter(|text| !text.is_empty())
}

fn union(types: impl Iterator<Item = String>) -> String {
    types.collect::<Vec<_>>().join(" | ")
}

fn json(value: &Value) -> String {
    dumps(value, &JsonStyle::default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::tool_declarations::read_tools;

    fn declared(parameters: Value, cookbook_exact: bool) -> String {
        let tools = [json!({"name": "f", "description": "Does.", "parameters": parameters})];
        let text = namespace(&read_tools(&tools).unwrap(), cookbook_exact);
        let inner =
            text.strip_prefix("# Tools\n\n## functions\n\nnamespace functions {\n\n// Does.\ntype f = ").unwrap();
        inner.strip_suffix(" => any;\n\n} // namespace functions").unwrap().to_owned()
    }

    #[test]
    fn parameters_are_as_openai_describes_them() {
        let parameters = json!({
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The city"},
                "format": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                "days": {"type": "integer", "default": 1},
            },
            "required": ["location"],
        });
        assert_eq!(
            declared(parameters, false),
            "(_: {\n// The city\nlocation: string,\nformat?: \"celsius\" | \"fahrenheit\", // default: celsius\n\
             days?: number, // default: 1\n})"
        );
        assert_eq!(declared(json!({"type": "object", "properties": {}}), false), "()");
    }

    #[test]
    fn what_the_cookbook_leaves_out_is_said() {
        for (schema, ours, cookbook) in [
            (json!({"type": "null"}), "null", "any"),
            (json!({"const": "x"}), "\"x\"", "any"),
            (json!({"type": "integer", "enum": [1, 2]}), "1 | 2", "number"),
            (json!({"type": "array", "items": {"type": ["string", "null"]}}), "(string | null)[]", "string | any[]"),
            (json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), "string | null", "string | any"),
            (json!({"type": "boolean", "nullable": true}), "boolean | null", "boolean | null"),
            (json!({"$ref": "#/$defs/E"}), "\"x\" | \"y\"", "any"),
            (json!({"allOf": [{"$ref": "#/$defs/E"}]}), "\"x\" | \"y\"", "any"),
            (json!({"type": "array", "items": {"$ref": "#/$defs/E"}}), "(\"x\" | \"y\")[]", "any[]"),
            (json!({"type": "array", "items": {"$ref": "#"}}), "any[]", "any[]"),
        ] {
            let parameters =
                json!({"type": "object", "properties": {"a": schema}, "$defs": {"E": {"enum": ["x", "y"]}}});
            assert_eq!(declared(parameters.clone(), false), format!("(_: {{\na?: {ours},\n}})"));
            assert_eq!(declared(parameters, true), format!("(_:\n{{\na?: {cookbook},\n}})"));
        }
    }
}
