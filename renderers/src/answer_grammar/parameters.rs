use serde_json::{Map, Value};

use super::grammar_writer::{CalledTool, GrammarWriter};
use crate::RenderError;
use crate::json_schema::{ANNOTATIONS, SchemaDocument, Types};

/// Bytes of the grammar of a call: the definitions of its schema stand in it once for each parameter that refers to any.
const LONGEST_CALL: usize = 4 << 20;

/// What a schema of arguments may say beside its properties.
const ARGUMENTS: [&str; 10] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "title",
    "description",
    "strict",
    "$schema",
    "$defs",
    "definitions",
];

impl GrammarWriter<'_> {
    /// The arguments of a call in the order in which they are declared, each as `parameter` spells it; those that are not
    /// required may be left out. Nothing that is not declared is passed.
    pub(super) fn parameters(
        &self,
        tool: &CalledTool<'_>,
        mut parameter: impl FnMut(&str, &Value) -> Result<String, RenderError>,
    ) -> Result<String, RenderError> {
        let CalledTool { name, parameters } = tool;
        let document = SchemaDocument::new(parameters);
        let flat = document.flattened(parameters);
        let flat = flat.ok_or_else(|| self.unsupported_in(name, "their schemas cannot be written as one"))?;
        let schema = flat.as_object().ok_or_else(|| self.unsupported_in(name, "they are no schema"))?;
        if let Some(key) = schema.keys().find(|key| !ARGUMENTS.contains(&key.as_str())) {
            return Err(self.unsupported_in(name, &format!("`{key}` beside properties cannot be kept")));
        }
        let properties = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        if let Some(missing) = required.iter().find(|key| !properties.contains_key(**key)) {
            return Err(self.unsupported_in(name, &format!("`{missing}` is required but not among the properties")));
        }
        let mut spelled = String::new();
        for (key, property) in &properties {
            let property = match refers_elsewhere(property) {
                true => document.flattened(property).unwrap_or_else(|| property.clone()),
                false => property.clone(),
            };
            let parameter = parameter(key, &with_definitions(&property, schema))?;
            if spelled.len() + parameter.len() > LONGEST_CALL {
                let why = format!("with the definitions that each refers to they take more than {LONGEST_CALL} bytes");
                return Err(self.unsupported_in(name, &why));
            }
            spelled.push_str(&match required.contains(&key.as_str()) {
                true => format!(" {parameter}"),
                false => format!(" ({parameter})?"),
            });
        }
        Ok(spelled)
    }

    pub(super) fn unsupported_in(&self, tool: &str, why: &str) -> RenderError {
        self.unsupported(format!("the parameters of the tool `{tool}` are written as text in it, and {why}"))
    }
}

/// A property's schema with the definitions that it may refer to.
fn with_definitions(property: &Value, schema: &Map<String, Value>) -> Value {
    let mut property = property.clone();
    if !refers(&property) {
        return property;
    }
    if let Some(fields) = property.as_object_mut() {
        let definitions = ["$defs", "definitions"].into_iter().filter_map(|key| Some((key, schema.get(key)?)));
        fields.extend(definitions.map(|(key, value)| (key.to_owned(), value.clone())));
    }
    property
}

/// Whether a schema refers to another.
fn refers(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(refers),
        Value::Array(items) => items.iter().any(refers),
        _ => false,
    }
}

/// Whether a schema itself refers to what is no definition, such as another property.
fn refers_elsewhere(schema: &Value) -> bool {
    let reference = schema.get("$ref").and_then(Value::as_str);
    reference.is_some_and(|reference| !["#/$defs/", "#/definitions/"].iter().any(|place| reference.starts_with(place)))
}

/// The values that a schema lists.
pub(super) fn listed_values(schema: &Value) -> Option<Vec<&Value>> {
    let listed = schema.get("enum").and_then(Value::as_array).map(|values| values.iter().collect());
    listed.or_else(|| Some(vec![schema.get("const")?]))
}

/// How long text may be that a schema asks for, as the repetition of a regular expression; or what else it asks for that
/// text which is written as it stands cannot be kept to.
pub(super) fn text_length(schema: &Value) -> Result<String, String> {
    let fields = schema.as_object().ok_or("it is no schema")?;
    let alternatives = ["anyOf", "oneOf"].into_iter().find_map(|key| fields.get(key)?.as_array());
    let narrows = |fields: &Map<String, Value>, also: &[&str]| {
        let known = |key: &&String| [&ANNOTATIONS[..], &["type", "nullable"], also].concat().contains(&key.as_str());
        fields.keys().find(|key| !known(key)).map(|key| format!("text cannot be kept to its `{key}`"))
    };
    if let Some(alternatives) = alternatives {
        // Text that is none of the others is a string: any text will do, if each takes all that is of its type.
        let narrowed = alternatives
            .iter()
            .map(|schema| schema.as_object().map_or(Some("it is no schema".to_owned()), |fields| narrows(fields, &[])));
        return match narrows(fields, &["anyOf", "oneOf"]).or_else(|| narrowed.flatten().next()) {
            Some(why) => Err(why),
            None => Ok("*".to_owned()),
        };
    }
    let is_string = SchemaDocument::new(schema).types(schema) == Types::STRING;
    let lengths: &[&str] = if is_string { &["minLength", "maxLength"] } else { &[] };
    if let Some(why) = narrows(fields, lengths) {
        return Err(why);
    }
    let bound = |key: &str| fields.get(key).and_then(Value::as_u64);
    Ok(match (bound("minLength"), bound("maxLength")) {
        (None, None) => "*".to_owned(),
        (least, None) => format!("{{{},}}", least.unwrap_or(0)),
        (least, Some(most)) => format!("{{{},{most}}}", least.unwrap_or(0)),
    })
}
