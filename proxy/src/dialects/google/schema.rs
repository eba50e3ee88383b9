use serde_json::{Map, Value, json};

use super::fields::{camel_case, must, whole_number};
use crate::error::ProxyError;

/// Google's names of types that JSON Schema has in lower case.
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "array", "object", "null"];

/// Bounds that protobuf's JSON writes as text.
const COUNTS: [&str; 6] = ["minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"];

/// Formats of numbers, and of texts out of a list: they say no more than the type and the list do.
const IMPLIED_BY_THE_TYPE: [&str; 5] = ["float", "double", "int32", "int64", "enum"];

/// Google's `Schema`, which is OpenAPI's, as a JSON schema: types in lower case, `nullable` among the types, properties in
/// their order. What is no field of it stays as it is.
pub(super) fn json_schema(schema: Value, place: &str) -> Result<Value, ProxyError> {
    let Value::Object(fields) = schema else { return Err(must(place, "must be a schema")) };
    let (mut read, mut is_nullable, mut order) = (Map::new(), false, Vec::new());
    for (given, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
        let name = if given.starts_with('$') { given } else { camel_case(&given) };
        let at = format!("{place}.{name}");
        match name.as_str() {
            "type" => {
                if let Some(kind) = type_name(&value, &at)? {
                    read.insert(name, kind);
                }
            }
            "nullable" => is_nullable = value == Value::Bool(true),
            "propertyOrdering" => order = names(value, &at)?,
            "format" if value.as_str().is_some_and(|format| IMPLIED_BY_THE_TYPE.contains(&format)) => {}
            "items" => {
                read.insert(name, json_schema(value, &at)?);
            }
            // A boolean says whether there may be others.
            "additionalProperties" if value.is_object() => {
                read.insert(name, json_schema(value, &at)?);
            }
            "properties" | "defs" | "$defs" => {
                let name = if name == "defs" { "$defs".to_owned() } else { name };
                read.insert(name, each_property(value, &at)?);
            }
            "ref" => {
                let target = value.as_str().ok_or_else(|| must(&at, "must be a string"))?;
                read.insert("$ref".to_owned(), target.replacen("#/defs/", "#/$defs/", 1).into());
            }
            "anyOf" | "prefixItems" | "oneOf" | "allOf" => {
                read.insert(name, each_item(value, &at)?);
            }
            count if COUNTS.contains(&count) => {
                let number = whole_number(&value).ok_or_else(|| must(&at, "must be a whole number"))?;
                read.insert(name, number.into());
            }
            _ => {
                read.insert(name, value);
            }
        }
    }
    put_in_order(&mut read, &order);
    Ok(if is_nullable { nullable(read) } else { Value::Object(read) })
}

/// A type's name in JSON Schema; `None` where none is specified.
fn type_name(value: &Value, place: &str) -> Result<Option<Value>, ProxyError> {
    let wrong = || must(place, &format!("is {value}, but must be one of {}", TYPES.join(", ").to_uppercase()));
    // JSON Schema's own list of types is taken as well.
    if let Value::Array(kinds) = value {
        let kinds = kinds.iter().map(|kind| type_name(kind, place));
        let kinds: Vec<Value> = kinds.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        return Ok(Some(kinds.into()));
    }
    let kind = value.as_str().ok_or_else(wrong)?.to_ascii_lowercase();
    match kind.as_str() {
        "type_unspecified" => Ok(None),
        known if TYPES.contains(&known) => Ok(Some(kind.into())),
        _ => Err(wrong()),
    }
}

fn names(value: Value, place: &str) -> Result<Vec<String>, ProxyError> {
    serde_json::from_value(value).map_err(|_| must(place, "must be a list of names"))
}

fn each_property(value: Value, place: &str) -> Result<Value, ProxyError> {
    let Value::Object(properties) = value else { return Err(must(place, "must be an object of schemas")) };
    let read = properties.into_iter().map(|(name, schema)| {
        let schema = json_schema(schema, &format!("{place}.{name}"))?;
        Ok((name, schema))
    });
    read.collect::<Result<Map<_, _>, ProxyError>>().map(Value::Object)
}

fn each_item(value: Value, place: &str) -> Result<Value, ProxyError> {
    let Value::Array(schemas) = value else { return Err(must(place, "must be a list of schemas")) };
    let read = schemas.into_iter().enumerate().map(|(index, schema)| json_schema(schema, &format!("{place}[{index}]")));
    read.collect()
}

/// Puts the properties that are named first into that order: an answer has them in the schema's.
fn put_in_order(schema: &mut Map<String, Value>, order: &[String]) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let mut rest = std::mem::take(properties);
    properties.extend(order.iter().filter_map(|name| rest.shift_remove_entry(name)));
    properties.extend(rest);
}

/// The schema, or null.
fn nullable(mut schema: Map<String, Value>) -> Value {
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    let refers = schema.contains_key("anyOf") || schema.contains_key("$ref");
    match schema.get_mut("type") {
        Some(kind @ Value::String(_)) => {
            let named = kind.take();
            *kind = json!([named, "null"]);
            Value::Object(schema)
        }
        None if refers => json!({ "anyOf": [schema, { "type": "null" }] }),
        // Where no type is named, anything may be null already.
        Some(_) | None => Value::Object(schema),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn read(schema: Value) -> Result<String, String> {
        json_schema(schema, "s").map(|schema| schema.to_string()).map_err(refused_field)
    }

    #[test]
    fn googles_schemas_are_json_schemas() {
        for (google, expected) in [
            (json!({ "type": "STRING" }), json!({ "type": "string" })),
            (json!({ "type": "string", "format": "date-time" }), json!({ "type": "string", "format": "date-time" })),
            (json!({ "type": "INTEGER", "format": "int32" }), json!({ "type": "integer" })),
            (json!({ "type": "TYPE_UNSPECIFIED", "description": "d" }), json!({ "description": "d" })),
            (json!({ "type": "NUMBER", "nullable": true }), json!({ "type": ["number", "null"] })),
            (
                json!({ "type": "STRING", "format": "enum", "enum": ["a"], "nullable": true }),
                json!({ "type": ["string", "null"], "enum": ["a", null] }),
            ),
            (
                json!({ "any_of": [{ "type": "STRING" }, { "type": "NULL" }], "nullable": true }),
                json!({ "anyOf": [{ "anyOf": [{ "type": "string" }, { "type": "null" }] }, { "type": "null" }] }),
            ),
            (
                json!({ "type": "ARRAY", "items": { "type": "BOOLEAN" }, "min_items": "1", "maxItems": 3 }),
                json!({ "type": "array", "items": { "type": "boolean" }, "minItems": 1, "maxItems": 3 }),
            ),
            (
                json!({ "defs": { "P": { "type": "OBJECT" } }, "ref": "#/defs/P" }),
                json!({ "$defs": { "P": { "type": "object" } }, "$ref": "#/$defs/P" }),
            ),
        ] {
            assert_eq!(read(google.clone()), Ok(expected.to_string()), "{google}");
        }
    }

    #[test]
    fn properties_keep_their_names_and_come_in_their_order() {
        let google = json!({
            "type": "OBJECT",
            "properties": { "any_of": { "type": "STRING" }, "type": { "type": "INTEGER" }, "z": { "type": "NUMBER" } },
            "propertyOrdering": ["z", "none", "any_of"],
            "required": ["z"],
        });
        let expected = json!({
            "type": "object",
            "properties": { "z": { "type": "number" }, "any_of": { "type": "string" }, "type": { "type": "integer" } },
            "required": ["z"],
        });
        assert_eq!(read(google), Ok(expected.to_string()));
    }

    #[test]
    fn every_fault_names_its_place() {
        for (schema, place) in [
            (json!("STRING"), "s"),
            (json!({ "type": "TEXT" }), "s.type"),
            (json!({ "type": 1 }), "s.type"),
            (json!({ "items": [] }), "s.items"),
            (json!({ "properties": { "a": { "type": "B" } } }), "s.properties.a.type"),
            (json!({ "properties": [] }), "s.properties"),
            (json!({ "anyOf": [{}, 1] }), "s.anyOf[1]"),
            (json!({ "minItems": "few" }), "s.minItems"),
            (json!({ "propertyOrdering": 1 }), "s.propertyOrdering"),
            (json!({ "ref": 1 }), "s.ref"),
        ] {
            assert_eq!(read(schema.clone()), Err(place.to_owned()), "{schema}");
        }
    }
}
