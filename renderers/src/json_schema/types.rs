//! Types of JSON values: their names, and what keywords let guess of them.

use std::ops::{BitAnd, BitOr, Not};

use serde_json::{Map, Value};

/// Keywords that narrow texts alone. `format` is another, where it is no number's.
const OF_TEXT: [&str; 5] = ["pattern", "minLength", "maxLength", "contentMediaType", "contentEncoding"];

/// What stands at the beginning of formats of numbers (OpenAPI's registry).
const FORMATS_OF_NUMBERS: [&str; 6] = ["int", "uint", "float", "double", "decimal", "sf-"];

/// Keywords whose value maps names to schemas.
const MAPS_OF_SCHEMAS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Keywords whose value is no schema, whatever it looks like.
const NO_SCHEMAS: [&str; 5] = ["enum", "const", "default", "examples", "required"];

/// Types of JSON values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const NULL: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    pub(crate) const INTEGER: Self = Self(4);
    /// Numbers that are no integers.
    const FRACTION: Self = Self(8);
    pub(crate) const NUMBER: Self = Self(4 | 8);
    pub(crate) const STRING: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);
    pub(crate) const OBJECT: Self = Self(64);
    pub(crate) const ANY: Self = Self(127);

    /// The type of a value.
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => Self::INTEGER,
            Value::Number(_) => Self::FRACTION,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// The types that a name stands for, in any case, as Google spells them in capitals; an unknown one narrows nothing.
    pub(super) fn named(name: &Value) -> Self {
        match name.as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("null") => Self::NULL,
            Some("boolean") => Self::BOOLEAN,
            Some("integer") => Self::INTEGER,
            Some("number") => Self::NUMBER,
            Some("string") => Self::STRING,
            Some("array") => Self::ARRAY,
            Some("object") => Self::OBJECT,
            _ => Self::ANY,
        }
    }

    /// Whether one of `other` is among them.
    pub(crate) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl Not for Types {
    type Output = Self;

    fn not(self) -> Self {
        Self(!self.0 & Self::ANY.0)
    }
}

impl BitAnd for Types {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Types {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The type that a schema without one lets guess: text, where its keywords are of texts alone, or where it gives texts as
/// examples and says nothing else.
pub(super) fn guessed(fields: &Map<String, Value>) -> Types {
    let has = |key: &&str| fields.contains_key(*key);
    if ["type", "enum", "const"].iter().any(has) {
        return Types::ANY;
    }
    let format = fields.get("format").and_then(Value::as_str);
    let is_format_of_text =
        format.is_some_and(|format| !FORMATS_OF_NUMBERS.iter().any(|number| format.starts_with(number)));
    if is_format_of_text || OF_TEXT.iter().any(has) {
        return Types::STRING;
    }
    let other_keys = ["$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if"];
    let listed = fields.get("examples").and_then(Value::as_array).into_iter().flatten();
    let mut examples = fields.get("default").into_iter().chain(listed).peekable();
    let is_text = format.is_none() && examples.peek().is_some() && examples.all(Value::is_string);
    if is_text && !other_keys.iter().any(has) { Types::STRING } else { Types::ANY }
}

/// Writes the names of types as JSON Schema does, in a schema and in all within it.
pub(crate) fn spell_types(schema: &mut Value) {
    let spell = |name: &mut Value| {
        if Types::named(name) != Types::ANY
            && let Value::String(name) = name
        {
            name.make_ascii_lowercase();
        }
    };
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(spell_types),
        Value::Object(fields) => {
            for (key, value) in fields {
                match (key.as_str(), value) {
                    ("type", Value::Array(names)) => names.iter_mut().for_each(spell),
                    ("type", name) => spell(name),
                    (key, Value::Object(schemas)) if MAPS_OF_SCHEMAS.contains(&key) => {
                        schemas.values_mut().for_each(spell_types);
                    }
                    (key, _) if NO_SCHEMAS.contains(&key) => {}
                    (_, value) => spell_types(value),
                }
            }
        }
        _ => {}
    }
}
