//! Random JSON schemas, and what meets them.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// A schema of one value, short enough that a model which knows nothing comes to its end.
fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..3_u64, 0..5_u64)
            .prop_map(|(least, more)| json!({ "type": "string", "minLength": least, "maxLength": least + more })),
        (-50..50_i64, 0..200_i64)
            .prop_map(|(least, more)| json!({ "type": "integer", "minimum": least, "maximum": least + more })),
        Just(json!({ "type": "boolean" })),
        Just(json!({ "type": "null" })),
        proptest::sample::subsequence(vec!["red", "a \"b\"", "c\nd", "é你", "x<y/>"], 1..4)
            .prop_map(|values| json!({ "type": "string", "enum": values })),
        proptest::sample::subsequence(vec![json!("one"), json!(2), json!(true), json!(null)], 1..4)
            .prop_map(|values| json!({ "enum": values })),
    ]
}

fn list(items: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    (items, 0..3_u64).prop_map(|(items, most)| json!({ "type": "array", "items": items, "maxItems": most }))
}

fn object(values: impl Strategy<Value = Value>, least: usize) -> impl Strategy<Value = Value> {
    proptest::collection::vec((values, any::<bool>()), least..4).prop_map(|values| {
        let name = |index: usize| format!("field_{index}");
        let required: Vec<String> = values
            .iter()
            .enumerate()
            .filter(|(_, (_, is_required))| *is_required)
            .map(|(index, _)| name(index))
            .collect();
        let properties: Map<String, Value> =
            values.into_iter().enumerate().map(|(index, (schema, _))| (name(index), schema)).collect();
        json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
    })
}

/// Schemas of objects, two levels deep.
pub fn objects() -> impl Strategy<Value = Value> {
    object(prop_oneof![4 => scalar(), 1 => list(scalar()), 1 => object(scalar(), 0)], 0)
}

/// Whether a value is what one of these schemas asks for.
pub fn is_met(schema: &Value, value: &Value) -> bool {
    if let Some(values) = schema["enum"].as_array() {
        return values.contains(value);
    }
    match schema["type"].as_str().unwrap() {
        "string" => value.as_str().is_some_and(|text| {
            let range = schema["minLength"].as_u64().unwrap()..=schema["maxLength"].as_u64().unwrap();
            range.contains(&(text.chars().count() as u64))
        }),
        // `-0` is an integer, though none that `as_i64` knows.
        "integer" => value.as_f64().is_some_and(|number| {
            let range = schema["minimum"].as_f64().unwrap()..=schema["maximum"].as_f64().unwrap();
            number.fract() == 0.0 && range.contains(&number)
        }),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "array" => value.as_array().is_some_and(|items| {
            items.len() as u64 <= schema["maxItems"].as_u64().unwrap()
                && items.iter().all(|item| is_met(&schema["items"], item))
        }),
        "object" => value.as_object().is_some_and(|fields| {
            let has_required =
                schema["required"].as_array().unwrap().iter().all(|key| fields.contains_key(key.as_str().unwrap()));
            let met = |(key, value): (&String, &Value)| {
                schema["properties"].get(key).is_some_and(|schema| is_met(schema, value))
            };
            has_required && fields.iter().all(met)
        }),
        other => panic!("no such type: {other}"),
    }
}

#[test]
fn minus_nought_is_an_integer() {
    let schema = json!({ "type": "integer", "minimum": -1, "maximum": 0 });
    for (text, met) in [("-0", true), ("-1", true), ("1", false), ("-0.5", false)] {
        assert_eq!(is_met(&schema, &serde_json::from_str(text).unwrap()), met, "{text}");
    }
}
