//! OTLP's JSON, brought into the one form of it that the message types read.

use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use serde_json::{Value, json};

/// What of a span is not kept, and need not make sense.
const NOT_READ: &[&str] = &[
    "kind",
    "flags",
    "scope",
    "traceState",
    "droppedAttributesCount",
    "droppedEventsCount",
    "droppedLinksCount",
    "entityRefs",
];

/// A request or a part of one, in that form.
pub(super) fn normalised(bytes: &[u8]) -> Result<Value, String> {
    let mut part: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    normalise(&mut part);
    Ok(part)
}

/// The error's words, without the place of a value that is another than it should be.
pub(super) fn without_place(error: serde_json::Error) -> String {
    let words = error.to_string();
    match words.rsplit_once(" at line ") {
        Some((found, _)) if error.is_data() => found.to_owned(),
        _ => words,
    }
}

/// Takes out nulls, which mean the default, and what is not read; makes numbers of an enum's name and of a double that
/// is a text, and gives a list without values, which other programs write as `{}`, its empty one. An attribute's key is a value here (`{"key": .., "value": ..}`), so none is mistaken for a field.
fn normalise(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(fields) => {
            fields.retain(|key, value| !value.is_null() && !NOT_READ.contains(&key.as_str()));
            for (key, value) in fields.iter_mut() {
                match (key.as_str(), value.as_str()) {
                    ("code", Some(name)) => {
                        if let Some(code) = StatusCode::from_str_name(name) {
                            *value = json!(i32::from(code));
                        }
                    }
                    ("doubleValue", Some(text)) => {
                        if let Ok(number) = text.parse::<f64>() {
                            // What is not finite has no number in JSON; it becomes null.
                            *value = json!(number);
                        }
                    }
                    ("arrayValue" | "kvlistValue", _) => {
                        normalise(value);
                        if let Some(list) = value.as_object_mut() {
                            list.entry("values").or_insert_with(|| json!([]));
                        }
                    }
                    _ => normalise(value),
                }
            }
        }
        _ => {}
    }
}
