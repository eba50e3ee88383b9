use serde_json::{Value, json};

use crate::dialects::field_checks::refuse;
use crate::error::ProxyError;
use crate::requests::structured_output::JsonForm;

/// Reads the response format in `field`: text, JSON, or JSON that matches a schema. The schema is in `json_schema` as in
/// Chat Completions, or beside the type as in the other dialects.
pub(crate) fn read(field: &'static str, format: Option<&Value>) -> Result<Option<JsonForm>, ProxyError> {
    let Some(format) = format.filter(|format| !format.is_null()) else { return Ok(None) };
    let schema = match format.get("type").and_then(Value::as_str) {
        Some("text") => return Ok(None),
        // llama.cpp's clients put a schema beside it.
        Some("json_object") => {
            let schema = format.get("schema").filter(|schema| schema.is_object());
            schema.cloned().unwrap_or_else(|| json!({ "type": "object" }))
        }
        Some("json_schema") => match format.get("json_schema").unwrap_or(format).get("schema") {
            Some(schema @ (Value::Object(_) | Value::Bool(_))) => schema.clone(),
            _ => {
                let place = if format.get("json_schema").is_some() { ".json_schema.schema" } else { ".schema" };
                refuse(&format!("{field}{place}"), "must be a JSON schema")?;
                return Ok(None);
            }
        },
        _ => {
            refuse(field, &format!("{format} is not supported; its type is text, json_object or json_schema"))?;
            return Ok(None);
        }
    };
    Ok(Some(JsonForm { field, schema }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_found_in_either_place_and_every_fault_is_named() {
        let schema = json!({ "type": "array" });
        let form = |schema: Value| Ok(Some(JsonForm { field: "f", schema }));
        let read = |format: Value| {
            read("f", Some(&format)).map_err(|error| match error {
                ProxyError::InvalidRequest { parameter, .. } => parameter.unwrap(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(
            read(json!({ "type": "json_schema", "json_schema": { "name": "n", "schema": schema } })),
            form(schema.clone())
        );
        assert_eq!(read(json!({ "type": "json_schema", "name": "n", "schema": schema, "strict": true })), form(schema));
        assert_eq!(read(json!({ "type": "json_object" })), form(json!({ "type": "object" })));
        let described = json!({ "type": "object", "required": ["a"] });
        assert_eq!(read(json!({ "type": "json_object", "schema": described })), form(described));
        assert_eq!(read(json!({ "type": "text" })), Ok(None));
        assert_eq!(read(Value::Null), Ok(None));
        for (format, field) in [
            (json!({ "type": "json_schema", "json_schema": { "name": "n" } }), "f.json_schema.schema"),
            (json!({ "type": "json_schema", "schema": "s" }), "f.schema"),
            (json!({ "type": "grammar" }), "f"),
            (json!("json"), "f"),
        ] {
            assert_eq!(read(format), Err(field.to_owned()));
        }
    }
}
