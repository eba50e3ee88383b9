use std::borrow::Cow;
use std::fmt::Write;

use fulgurite_types::Tool;
use serde_json::{Map, Value};

use crate::RenderError;
use crate::json_schema::SchemaDocument;
use crate::python::python_json::{JsonStyle, dumps};
use crate::python::python_repr::python_str;
use crate::python::python_text::from_json;

const INDENT: &str = "  ";

/// Tools as Kimi K2.5 declares them: TypeScript types of functions, fields in the order of their names, those that are
/// required first.
///
/// A schema that says nothing of a type is refused under `cookbook_exact`, and else means any value.
pub(crate) fn typescript(tools: &[Tool<'_>], cookbook_exact: bool) -> Result<String, RenderError> {
    let mut functions = String::new();
    for (tool_index, tool) in tools.iter().enumerate() {
        let declared = function(tool, cookbook_exact);
        let declared = declared.map_err(|message| RenderError::Tool { tool_index, message })?;
        functions = functions + &declared + "\n";
    }
    Ok(format!("# Tools\n\n## functions\nnamespace functions {{\n{functions}}}\n"))
}

fn function(tool: &Tool<'_>, cookbook_exact: bool) -> Result<String, String> {
    let declared = tool.parameters();
    let parameters = match cookbook_exact || !refers_elsewhere(&declared) {
        true => declared,
        false => Cow::Owned(SchemaDocument::new(&declared).expanded(&declared).ok_or("has a schema that is too long")?),
    };
    let mut schemas = Schemas { cookbook_exact, ..Schemas::default() };
    schemas.collect_object(&parameters)?;
    let mut blocks = Vec::new();
    let parameters_type = if schemas.refers_to_root {
        let fields = schemas.fields(&parameters, INDENT)?;
        let fields: Vec<String> = fields.into_iter().map(|field| field.text).collect();
        blocks.push(format!("interface parameters {{{}}}", enclosed(&fields, "")));
        "parameters".to_owned()
    } else {
        schemas.object(&parameters, "")?
    };
    for (name, schema) in &schemas.definitions {
        let description = comment(text(schema, "description"), "");
        blocks.push(format!("{description}interface {name} {}", schemas.type_of(schema, "")?));
    }
    let description = comment(tool.description(), "");
    blocks.push(format!("{description}type {} = (_: {parameters_type}) => any;", tool.name));
    Ok(blocks.join("\n"))
}

/// The named schemas of one function.
#[derive(Debug, Default)]
struct Schemas<'s> {
    definitions: Vec<(&'s str, &'s Value)>,
    /// Whether something refers to the parameters themselves (`#`).
    refers_to_root: bool,
    cookbook_exact: bool,
}

/// A field of an object as it is written.
struct Field<'s> {
    name: &'s str,
    is_required: bool,
    text: String,
}

impl<'s> Schemas<'s> {
    /// Takes up the definitions in a schema and looks whether what refers to one finds it.
    fn collect(&mut self, schema: &'s Value) -> Result<(), String> {
        match Kind::of(schema, self.cookbook_exact)? {
            Kind::Reference("#") => self.refers_to_root = true,
            Kind::Reference(reference) => {
                let name = reference.strip_prefix("#/$defs/").ok_or_else(|| unsupported_reference(reference))?;
                let name = last_segment(name);
                if !self.definitions.iter().any(|(defined, _)| *defined == name) {
                    return Err(format!("refers to `{reference}`, which is not defined"));
                }
            }
            Kind::AnyOf(alternatives) => alternatives.iter().try_for_each(|schema| self.collect(schema))?,
            Kind::Object => self.collect_object(schema)?,
            Kind::Array => items(schema).into_iter().try_for_each(|items| self.collect(items))?,
            Kind::Enum(_) | Kind::Union(_) | Kind::Scalar(_) => {}
        }
        Ok(())
    }

    fn collect_object(&mut self, schema: &'s Value) -> Result<(), String> {
        let definitions = schema.get("$defs").and_then(Value::as_object);
        self.definitions.extend(definitions.into_iter().flatten().map(|(name, schema)| (name.as_str(), schema)));
        if let Some(additional) = schema.get("additionalProperties").filter(|additional| additional.is_object()) {
            self.collect(additional)?;
        }
        properties(schema).into_iter().flatten().try_for_each(|(_, property)| self.collect(property))
    }

    fn type_of(&self, schema: &Value, indent: &str) -> Result<String, String> {
        match Kind::of(schema, self.cookbook_exact)? {
            Kind::Reference("#") => Ok("parameters".to_owned()),
            Kind::Reference(reference) => Ok(last_segment(reference).to_owned()),
            Kind::AnyOf(alternatives) => {
                let types: Vec<String> =
                    alternatives.iter().map(|schema| self.type_of(schema, indent)).collect::<Result<_, _>>()?;
                Ok(types.join(" | "))
            }
            Kind::Enum(values) => Ok(values.iter().map(literal).collect::<Vec<_>>().join(" | ")),
            Kind::Union(names) => Ok(names.iter().map(union_member).collect::<Result<Vec<_>, _>>()?.join(" | ")),
            Kind::Object => self.object(schema, indent),
            Kind::Array => self.array(schema, indent),
            Kind::Scalar("integer") => Ok("number".to_owned()),
            Kind::Scalar(name) => Ok(name.to_owned()),
        }
    }

    fn object(&self, schema: &Value, indent: &str) -> Result<String, String> {
        let inner = indent.to_owned() + INDENT;
        let mut fields = self.fields(schema, &inner)?;
        fields.sort_by_key(|field| (!field.is_required, field.name));
        let mut fields: Vec<String> = fields.into_iter().map(|field| field.text).collect();
        let additional = match schema.get("additionalProperties") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(true)) => Some("any".to_owned()),
            Some(Value::Bool(false)) => Some("never".to_owned()),
            Some(additional @ Value::Object(_)) => Some(self.type_of(additional, &inner)?),
            Some(other) => return Err(format!("has `additionalProperties` that are no schema: {other}")),
        };
        fields.extend(additional.map(|name| format!("{inner}[k: string]: {name}")));
        Ok(format!("{{{}}}", enclosed(&fields, indent)))
    }

    /// The fields of an object in the order in which they are declared.
    fn fields<'f>(&self, schema: &'f Value, indent: &str) -> Result<Vec<Field<'f>>, String> {
        let required = schema.get("required").and_then(Value::as_array);
        let field = |(name, property): (&'f String, &'f Value)| {
            let is_required = required.is_some_and(|required| required.iter().any(|required| required == name));
            let comments = self.comments(property, indent)? + &default_comment(property, indent);
            let optional = if is_required { "" } else { "?" };
            let text = format!("{comments}{indent}{name}{optional}: {}", self.type_of(property, indent)?);
            Ok(Field { name, is_required, text })
        };
        properties(schema).into_iter().flatten().map(field).collect()
    }

    fn array(&self, schema: &Value, indent: &str) -> Result<String, String> {
        let Some(items) = items(schema) else { return Ok("Array<any>".to_owned()) };
        let inner = indent.to_owned() + INDENT;
        let comments = self.comments(items, &inner)?;
        if comments.is_empty() {
            return Ok(format!("Array<{}>", self.type_of(items, indent)?));
        }
        Ok(format!("Array<\n{comments}{inner}{}\n{indent}>", self.type_of(items, &inner)?))
    }

    /// The comment above a value: its description and what limits it.
    fn comments(&self, schema: &Value, indent: &str) -> Result<String, String> {
        let limits: &[&str] = match Kind::of(schema, self.cookbook_exact)? {
            Kind::Scalar("string") => &["maxLength", "minLength", "pattern"],
            Kind::Scalar("number" | "integer") => &["maximum", "minimum"],
            Kind::Array => &["maxItems", "minItems"],
            _ => &[],
        };
        let limit = |name: &&str| Some(format!("{name}: {}", python_str(&from_json(schema.get(*name)?))));
        let limits: Vec<String> = limits.iter().filter_map(limit).collect();
        let mut comments = comment(text(schema, "description"), indent);
        if !limits.is_empty() {
            comments = format!("{comments}{indent}// {}\n", limits.join(", "));
        }
        Ok(comments)
    }
}

/// What a schema is; where it says several things, the first of these.
enum Kind<'s> {
    Reference(&'s str),
    AnyOf(&'s [Value]),
    Enum(&'s [Value]),
    /// Several names of types.
    Union(&'s [Value]),
    Object,
    Array,
    Scalar(&'s str),
}

impl<'s> Kind<'s> {
    fn of(schema: &'s Value, cookbook_exact: bool) -> Result<Self, String> {
        let fields = match schema {
            Value::Bool(true) => return Ok(Self::Scalar("any")),
            Value::Bool(false) => return Ok(Self::Scalar("null")),
            Value::Object(fields) => fields,
            _ => return Err(format!("has a schema that is no object: {schema}")),
        };
        if let Some(Value::String(reference)) = fields.get("$ref") {
            return Ok(Self::Reference(reference));
        }
        if let Some(Value::Array(alternatives)) = fields.get("anyOf") {
            return Ok(Self::AnyOf(alternatives));
        }
        if let Some(Value::Array(values)) = fields.get("enum") {
            check_enum(values, fields.get("type"))?;
            return Ok(Self::Enum(values));
        }
        match fields.get("type") {
            Some(Value::Array(names)) => Ok(Self::Union(names)),
            Some(Value::String(name)) => Ok(match name.as_str() {
                "object" => Self::Object,
                "array" => Self::Array,
                name => Self::Scalar(name),
            }),
            _ if fields.is_empty() || !cookbook_exact => Ok(Self::Scalar("any")),
            _ => Err(format!("has a schema without a type: {schema}")),
        }
    }
}

/// Whether the values of an enum are of the type that it names, beside null.
fn check_enum(values: &[Value], declared: Option<&Value>) -> Result<(), String> {
    let name = match declared {
        Some(Value::String(name)) => name.as_str(),
        Some(Value::Array(names)) => match &names[..] {
            [Value::String(name)] => name,
            [Value::String(name), Value::String(other)] if name == "null" => other,
            [Value::String(name), Value::String(other)] if other == "null" => name,
            _ => return Err("has an enum of several types".to_owned()),
        },
        _ => return Ok(()),
    };
    // A boolean is an integer to Python.
    let fits = |value: &Value| match name {
        "string" => value.is_string(),
        "number" => value.is_number() || value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64() || value.is_boolean(),
        "boolean" => value.is_boolean(),
        _ => true,
    };
    match values.iter().find(|value| !value.is_null() && !fits(value)) {
        Some(value) => Err(format!("has an enum of type {name} with the value {value}")),
        None => Ok(()),
    }
}

fn union_member(name: &Value) -> Result<&'static str, String> {
    Ok(match name.as_str() {
        Some("string") => "string",
        Some("number" | "integer") => "number",
        Some("boolean") => "boolean",
        Some("null") => "null",
        Some("object") => "{}",
        Some("array") => "Array<any>",
        _ => return Err(format!("has the unknown type {name}")),
    })
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// The schema of a list's items, where it says anything.
fn items(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| match items {
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(any) => *any,
        _ => true,
    })
}

/// A value of an enum. Text stands in quotes and is not escaped, other values are as Python writes them.
fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        value => python_str(&from_json(value)).into_owned(),
    }
}

fn default_comment(property: &Value, indent: &str) -> String {
    let default = match property.get("default") {
        None | Some(Value::Null) => return String::new(),
        Some(scalar @ (Value::Bool(_) | Value::Number(_))) => python_str(&from_json(scalar)).into_owned(),
        Some(other) => dumps(other, &JsonStyle { ensure_ascii: false, ..JsonStyle::default() }),
    };
    format!("{indent}// Default: {default}\n")
}

/// Text as comments, a line each; lines without text stay empty.
fn comment(text: &str, indent: &str) -> String {
    let mut comment = String::new();
    for line in text.split('\n').filter(|_| !text.is_empty()) {
        // Writing into a string cannot fail.
        let _ = if line.is_empty() { writeln!(comment) } else { writeln!(comment, "{indent}// {line}") };
    }
    comment
}

/// Fields, on lines of their own between braces that stand at `indent`.
fn enclosed(fields: &[String], indent: &str) -> String {
    if fields.is_empty() { String::new() } else { format!("\n{}\n{indent}", fields.join(",\n")) }
}

fn text<'s>(schema: &'s Value, name: &str) -> &'s str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn last_segment(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

/// Whether a schema refers to what Kimi's TypeScript has no name for.
fn refers_elsewhere(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            let reference = fields.get("$ref").and_then(Value::as_str);
            let has_name = |reference: &str| reference == "#" || reference.starts_with("#/$defs/");
            fields.contains_key("allOf")
                || reference.is_some_and(|reference| !has_name(reference))
                || fields.values().any(refers_elsewhere)
        }
        Value::Array(items) => items.iter().any(refers_elsewhere),
        _ => false,
    }
}

fn unsupported_reference(reference: &str) -> String {
    format!("refers to `{reference}`; only `#` and `#/$defs/...` can be referred to")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::tool_declarations::read_tools;

    fn declared(property: Value, cookbook_exact: bool) -> Result<String, String> {
        let parameters = json!({"type": "object", "properties": {"a": property}});
        let tools = [json!({"name": "f", "parameters": parameters})];
        let text = typescript(&read_tools(&tools).unwrap(), cookbook_exact);
        text.map_err(|error| error.to_string())
    }

    #[test]
    fn a_schema_without_a_type_is_any_value_but_to_the_cookbook() {
        let schema = json!({"description": "whatever"});
        let expected = "# Tools\n\n## functions\nnamespace functions {\n\
                        type f = (_: {\n  // whatever\n  a?: any\n}) => any;\n}\n";
        assert_eq!(declared(schema.clone(), false).unwrap(), expected);
        assert!(declared(schema, true).unwrap_err().starts_with("tool 0 has a schema without a type"));
    }

    #[test]
    fn what_is_referred_to_elsewhere_is_written_in_its_place_but_not_to_the_cookbook() {
        let parameters = json!({
            "type": "object",
            "properties": {"a": {"allOf": [{"$ref": "#/definitions/E"}]}},
            "definitions": {"E": {"enum": ["x", "y"]}},
        });
        let tools = [json!({"name": "f", "parameters": parameters})];
        let tools = read_tools(&tools).unwrap();
        let expected =
            "# Tools\n\n## functions\nnamespace functions {\ntype f = (_: {\n  a?: \"x\" | \"y\"\n}) => any;\n}\n";
        assert_eq!(typescript(&tools, false).unwrap(), expected);
        let error = declared(json!({"$ref": "other"}), true).unwrap_err();
        assert_eq!(error, "tool 0 refers to `other`; only `#` and `#/$defs/...` can be referred to");
    }

    #[test]
    fn what_is_no_schema_is_named() {
        for (schema, message) in [
            (json!({"$ref": "#/$defs/b"}), "tool 0 refers to `#/$defs/b`, which is not defined"),
            (json!({"type": "string", "enum": ["b", 1]}), "tool 0 has an enum of type string with the value 1"),
            (json!({"type": ["what"]}), "tool 0 has the unknown type \"what\""),
            (json!(1), "tool 0 has a schema that is no object: 1"),
        ] {
            assert_eq!(declared(schema, false).unwrap_err(), message);
        }
    }
}
