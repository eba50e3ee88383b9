use serde_json::{Value, json};

use super::{SchemaDocument, Types, spell_types};

/// The types of the property `p`.
fn types(parameters: &Value) -> Types {
    let document = SchemaDocument::new(parameters);
    document.property("p").map_or(Types::ANY, |schema| document.types(&schema))
}

#[test]
fn a_type_is_found_wherever_it_stands() {
    let text = json!({ "type": "string" });
    let defined = |reference: &str| {
        json!({
            "properties": { "p": { "$ref": reference, "description": "d" }, "q": text },
            "$defs": { "A": text, "a/b~c d": text, "B": { "$ref": "#/$defs/A" }, "C": { "allOf": [{ "$ref": "#/$defs/B" }] } },
            "definitions": { "A": text },
        })
    };
    for reference in [
        "#/$defs/A",
        "#/definitions/A",
        "#/$defs/B",
        "#/$defs/C",
        "#/$defs/a~1b~0c d",
        "#/$defs/a~1b~0c%20d",
        "#/properties/q",
    ] {
        assert_eq!(types(&defined(reference)), Types::STRING, "{reference}");
    }
    for reference in ["#/$defs/Z", "https://example.org/a.json", "A", "#/$defs/%", ""] {
        assert_eq!(types(&defined(reference)), Types::ANY, "{reference}");
    }
    let of = |schema: Value| types(&json!({ "properties": { "p": schema } }));
    for (schema, expected) in [
        (json!({ "type": "number" }), Types::NUMBER),
        (json!({ "type": ["string", "null"] }), Types::STRING | Types::NULL),
        (json!({ "const": "42" }), Types::STRING),
        (json!({ "enum": ["42", null] }), Types::STRING | Types::NULL),
        (json!({ "type": ["string", "integer"], "enum": ["42"] }), Types::STRING),
        (json!({ "allOf": [{ "type": ["string", "integer"] }, { "type": ["string", "null"] }] }), Types::STRING),
        (json!({ "anyOf": [{ "const": 1 }, { "oneOf": [{ "enum": ["a"] }] }] }), Types::STRING | Types::INTEGER),
        (json!({ "type": "string", "nullable": true }), Types::STRING | Types::NULL),
        (json!({ "allOf": [{ "type": "string" }], "nullable": true }), Types::STRING | Types::NULL),
        (json!({ "anyOf": [{ "type": "string" }, {}] }), Types::ANY),
        // What is no type, or no possible one, says nothing.
        (json!({ "type": "date" }), Types::ANY),
        (json!({ "allOf": [{ "type": "string" }, { "type": "null" }] }), Types::ANY),
        (json!(true), Types::ANY),
        (json!("string"), Types::ANY),
    ] {
        assert_eq!(of(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn a_type_is_found_behind_anchors_and_ids() {
    let text = |name: &str, value: &str| json!({ name: value, "type": "string" });
    for (reference, definition) in [
        (json!({ "$ref": "#text" }), text("$anchor", "text")),
        (json!({ "$ref": "#te%78t" }), text("$anchor", "text")),
        (json!({ "$dynamicRef": "#text" }), text("$dynamicAnchor", "text")),
        (json!({ "$ref": "text.json" }), text("$id", "text.json")),
        (json!({ "$ref": "text.json#" }), text("$id", "https://example.org/schemas/text.json")),
        (
            json!({ "$ref": "https://example.org/all.json#/$defs/B" }),
            json!({ "$id": "https://example.org/all.json", "$defs": { "B": { "type": "string" } } }),
        ),
    ] {
        let parameters = json!({ "properties": { "p": reference, "q": { "enum": [{ "$anchor": "text" }] } }, "$defs": { "A": definition } });
        assert_eq!(types(&parameters), Types::STRING, "{parameters}");
    }
    let recursive =
        json!({ "$recursiveAnchor": true, "properties": { "p": { "$recursiveRef": "#" } }, "type": "object" });
    assert_eq!(types(&recursive), Types::OBJECT);
    assert_eq!(types(&json!({ "properties": { "p": { "$ref": "#text" } } })), Types::ANY);
}

#[test]
fn a_type_is_narrowed_by_conditions_and_by_what_is_refused() {
    let of = |schema: Value| types(&json!({ "properties": { "p": schema } }));
    let text = || json!({ "type": "string" });
    for (schema, expected) in [
        (json!({ "if": { "minLength": 3 }, "then": text(), "else": text() }), Types::STRING),
        (json!({ "if": text(), "then": true, "else": { "type": "null" } }), Types::STRING | Types::NULL),
        (json!({ "if": text(), "else": false }), Types::STRING),
        (
            json!({ "if": { "type": "integer" }, "then": false, "else": { "type": ["string", "integer"] } }),
            Types::STRING,
        ),
        (json!({ "type": ["string", "integer"], "not": { "type": "integer" } }), Types::STRING),
        (json!({ "type": ["string", "null"], "not": { "const": "a" } }), Types::STRING | Types::NULL),
        (json!({ "not": { "type": "string", "minLength": 3 } }), Types::ANY),
        (json!({ "not": {} }), Types::ANY),
    ] {
        assert_eq!(of(schema.clone()), expected, "{schema}");
    }
    let document = json!({});
    let document = SchemaDocument::new(&document);
    let choice = json!({ "if": text(), "then": { "enum": ["a", "7"] }, "else": { "const": 7 } });
    let admitted: Vec<bool> =
        [json!("7"), json!("8"), json!(7), json!(8)].iter().map(|value| document.admits(&choice, value)).collect();
    assert_eq!(admitted, [true, false, true, false]);
    assert!(!document.admits(&json!({ "not": { "enum": [7] } }), &json!(7.0)));
}

#[test]
fn names_of_types_are_read_in_any_case() {
    let of = |schema: Value| types(&json!({ "properties": { "p": schema } }));
    for (schema, expected) in [
        (json!({ "type": "STRING" }), Types::STRING),
        (json!({ "type": "Integer", "nullable": true }), Types::INTEGER | Types::NULL),
        (json!({ "type": ["STRING", "NULL"] }), Types::STRING | Types::NULL),
        (json!({ "type": "TYPE_UNSPECIFIED" }), Types::ANY),
    ] {
        assert_eq!(of(schema.clone()), expected, "{schema}");
    }
    let document = json!({});
    let document = SchemaDocument::new(&document);
    assert!(!document.admits(&json!({ "type": "STRING" }), &json!(42)));
    assert_eq!(document.listed(&json!({ "type": "NULL" })), Some(vec![Value::Null]));
    let mut schema = json!({ "type": "OBJECT", "default": { "type": "STRING" }, "properties": {
        "type": { "type": ["STRING", "NULL"], "enum": ["STRING"] }, "b": { "anyOf": [{ "type": "Date" }, { "type": "ARRAY", "items": { "type": "NUMBER" } }] } } });
    spell_types(&mut schema);
    let spelled = json!({ "type": "object", "default": { "type": "STRING" }, "properties": {
        "type": { "type": ["string", "null"], "enum": ["STRING"] }, "b": { "anyOf": [{ "type": "Date" }, { "type": "array", "items": { "type": "number" } }] } } });
    assert_eq!(schema, spelled);
}

#[test]
fn a_schema_without_a_type_is_text_where_all_else_is_of_texts() {
    let of = |schema: Value| types(&json!({ "properties": { "p": schema }, "$defs": { "A": { "minLength": 1 } } }));
    for schema in [
        json!({ "pattern": "^[0-9]+$" }),
        json!({ "minLength": 1 }),
        json!({ "maxLength": 9, "description": "d" }),
        json!({ "format": "date-time" }),
        json!({ "contentMediaType": "text/html" }),
        json!({ "contentEncoding": "base64" }),
        json!({ "default": "" }),
        json!({ "examples": ["42", "7"] }),
        json!({ "$ref": "#/$defs/A" }),
        json!({ "allOf": [{ "description": "d" }, { "minLength": 1 }] }),
        json!({ "not": { "const": "" }, "minLength": 1 }),
        json!({ "not": { "not": { "type": "string" } } }),
        json!({ "not": { "not": { "not": { "not": { "minLength": 1 } } } } }),
        json!({ "not": { "not": { "enum": ["1", "2"] }, "description": "d" } }),
    ] {
        assert_eq!(of(schema.clone()), Types::STRING, "{schema}");
    }
    for (schema, expected) in [
        (json!({ "minLength": 1, "nullable": true }), Types::STRING | Types::NULL),
        (json!({ "anyOf": [{ "minLength": 1 }, { "type": "null" }] }), Types::STRING | Types::NULL),
        (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "default": "a" }), Types::STRING | Types::NULL),
        (json!({ "anyOf": [{}, { "type": "null" }], "default": "a" }), Types::ANY),
        (json!({ "type": "integer", "format": "date", "default": "7" }), Types::INTEGER),
        (json!({ "type": ["string", "null"], "minLength": 1 }), Types::STRING | Types::NULL),
        (json!({ "format": "int64" }), Types::ANY),
        (json!({ "default": "a", "examples": [1] }), Types::ANY),
        (json!({ "not": { "default": "a" } }), Types::ANY),
        (json!({ "not": { "minLength": 1 } }), Types::ANY),
        (json!({ "not": { "not": { "type": "integer" } } }), Types::INTEGER),
        (json!({ "not": { "not": {} } }), Types::ANY),
    ] {
        assert_eq!(of(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn a_property_that_is_declared_under_a_condition_is_of_its_type() {
    let text = json!({ "properties": { "p": { "type": "string" } } });
    let condition = json!({ "properties": { "kind": { "const": "a" } } });
    for parameters in [
        json!({ "if": condition, "then": text }),
        json!({ "if": condition, "else": text }),
        json!({ "allOf": [{ "if": condition, "then": { "$ref": "#a" } }], "$defs": { "A": { "$anchor": "a", "properties": text["properties"] } } }),
        json!({ "dependentSchemas": { "kind": text } }),
        json!({ "dependencies": { "kind": text, "other": ["kind"] } }),
    ] {
        assert_eq!(types(&parameters), Types::STRING, "{parameters}");
    }
    let both = json!({ "if": condition, "then": text, "else": { "properties": { "p": { "type": "integer" } } } });
    assert_eq!(types(&both), Types::STRING | Types::INTEGER);
}

#[test]
fn references_in_a_circle_end() {
    let of =
        |definitions: Value| types(&json!({ "properties": { "p": { "$ref": "#/$defs/A" } }, "$defs": definitions }));
    assert_eq!(of(json!({ "A": { "$ref": "#/$defs/A" } })), Types::ANY);
    assert_eq!(of(json!({ "A": { "$ref": "#/$defs/B" }, "B": { "$ref": "#/$defs/A" } })), Types::ANY);
    let list = json!({ "A": { "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/A" }] } });
    assert_eq!(of(list), Types::STRING);
    let text = json!({ "A": { "type": "string", "allOf": [{ "$ref": "#/$defs/A" }] } });
    assert_eq!(of(text), Types::STRING);
    assert_eq!(types(&json!({ "$ref": "#", "properties": { "p": { "type": "null" } } })), Types::NULL);
    // Each definition refers to the next one twice.
    let definitions: serde_json::Map<String, Value> = (0..40)
        .map(|n| (format!("A{n}"), json!({ "anyOf": [{ "$ref": format!("#/$defs/A{}", n + 1) }, { "$ref": format!("#/$defs/A{}", n + 1) }] })))
        .collect();
    let wide = json!({ "properties": { "p": { "$ref": "#/$defs/A0" } }, "$defs": definitions });
    assert_eq!(types(&wide), Types::ANY);
    let document = SchemaDocument::new(&wide);
    assert!(document.listed(&document.property("p").unwrap()).is_none());
    assert!(document.flattened(&document.property("p").unwrap()).is_none());
}

#[test]
fn a_property_is_found_wherever_it_is_declared() {
    let text = json!({ "type": "string" });
    for parameters in [
        json!({ "$ref": "#/$defs/P", "$defs": { "P": { "properties": { "p": text } } } }),
        json!({ "allOf": [{ "properties": { "q": {} } }, { "$ref": "#/definitions/P" }], "definitions": { "P": { "properties": { "p": text } } } }),
        json!({ "anyOf": [{ "properties": { "p": text } }, { "properties": { "p": { "const": "a" } } }] }),
        json!({ "additionalProperties": text }),
        json!({ "properties": { "q": {} }, "unevaluatedProperties": text }),
        json!({ "patternProperties": { "^p": text, "^q": { "type": "null" } }, "additionalProperties": { "type": "null" } }),
        json!({ "properties": { "p": text }, "additionalProperties": { "type": "null" } }),
    ] {
        assert_eq!(types(&parameters), Types::STRING, "{parameters}");
    }
    for parameters in [
        json!({ "anyOf": [{ "properties": { "p": text } }, {}] }),
        json!({ "additionalProperties": false }),
        json!({ "patternProperties": { "(": text } }),
        json!(null),
    ] {
        assert_eq!(types(&parameters), Types::ANY, "{parameters}");
    }
}

#[test]
fn listed_values_are_gathered_from_alternatives_and_references() {
    let document = json!({ "$defs": { "A": { "enum": ["a", "b", "a"], "type": "string" } } });
    let document = SchemaDocument::new(&document);
    let listed = |schema: Value| document.listed(&schema).map(Value::from);
    assert_eq!(listed(json!({ "$ref": "#/$defs/A" })), Some(json!(["a", "b"])));
    assert_eq!(
        listed(json!({ "anyOf": [{ "$ref": "#/$defs/A" }, { "type": "null" }] })),
        Some(json!(["a", "b", null]))
    );
    assert_eq!(listed(json!({ "allOf": [{ "$ref": "#/$defs/A" }, { "const": "b" }] })), Some(json!(["b"])));
    assert_eq!(listed(json!({ "anyOf": [{ "$ref": "#/$defs/A" }, { "type": "string" }] })), None);
    assert_eq!(
        document.flattened(&json!({ "$ref": "#/$defs/A", "description": "d" })),
        Some(json!({ "description": "d", "enum": ["a", "b", "a"], "type": "string" }))
    );
    assert_eq!(document.flattened(&json!({ "allOf": [{ "minLength": 1 }, { "minLength": 2 }] })), None);
}
