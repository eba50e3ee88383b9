use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use fulgurite_types::{long_number, mended_json};
use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value as Json};

/// A float that Python writes with an exponent. The template engine joins and concatenates values by its own rules,
/// which write all digits, so that such a float goes in as an object that knows its text.
#[derive(Debug)]
struct ExponentFloat(f64);

impl Object for ExponentFloat {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&float_repr(self.0))
    }
}

/// A number that 64 bits do not hold: its digits.
#[derive(Debug)]
struct LongInteger(String);

impl Object for LongInteger {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The fields of a JSON object, in their order. Objects have few: looking at one after the other costs less than a hash
/// map that is made for each object of each prompt.
#[derive(Debug)]
pub(crate) struct JsonObject(Vec<(FieldName, Value)>);

/// Fields that are looked through as fast as they are looked up.
const FEW_FIELDS: usize = 32;

/// The name of a field.
#[derive(Clone, Debug)]
pub(crate) enum FieldName {
    /// One that every message has.
    Known(&'static str),
    /// One that the JSON spells; short ones are no allocation.
    Given(Value),
}

impl FieldName {
    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Known(name) => name,
            Self::Given(name) => name.as_str().unwrap_or_default(),
        }
    }

    /// The name as a value.
    pub(crate) fn value(&self) -> Value {
        match self {
            Self::Known(name) => Value::from(*name),
            Self::Given(name) => name.clone(),
        }
    }
}

impl From<&str> for FieldName {
    fn from(name: &str) -> Self {
        Self::Given(Value::from(name))
    }
}

impl JsonObject {
    /// The fields in their order.
    pub(crate) fn fields(&self) -> &[(FieldName, Value)] {
        &self.0
    }

    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value)
    }
}

/// The object that a value of [`from_json`] is, if it is one.
pub(crate) fn as_object(value: &Value) -> Option<&JsonObject> {
    value.downcast_object_ref()
}

impl Object for JsonObject {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.field(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.0.iter().map(|(name, _)| name.value()).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.0.len())
    }
}

/// An object of these fields, whose names differ.
pub(crate) fn object(fields: Vec<(FieldName, Value)>) -> Value {
    Value::from_object(JsonObject(fields))
}

/// A JSON value as templates see it.
pub(crate) fn from_json(value: &Json) -> Value {
    from_json_with(value, &|text| Value::from(text))
}

/// [`from_json`] where `text_value` makes the value of every string, names of fields included.
pub(crate) fn from_json_with(value: &Json, text_value: &impl Fn(&str) -> Value) -> Value {
    match value {
        Json::Array(items) => items.iter().map(|item| from_json_with(item, text_value)).collect(),
        long if long_number(long).is_some() => {
            Value::from_object(LongInteger(long_number(long).unwrap_or_default().to_owned()))
        }
        Json::Object(fields) => object(fields.iter().map(|field| field_with(field, text_value)).collect()),
        Json::Number(number) => from_number(number),
        Json::String(text) => text_value(text),
        Json::Bool(value) => Value::from(*value),
        Json::Null => Value::from(()),
    }
}

/// [`from_json_with`] of JSON that is still text; `None` where the text is none. Integers of any size keep their digits.
/// Halves of surrogate pairs, which no template's text can hold, are replaced.
pub(crate) fn from_json_text(text: &str, text_value: &impl Fn(&str) -> Value) -> Option<Value> {
    let text = &*mended_json(text);
    // To look at every number's text costs a pass for each level, of which the parser allows 128.
    let keeps_digits = has_long_number(text) && serde_json::from_str::<Json>(text).is_ok();
    let mut json = serde_json::Deserializer::from_str(text);
    let value = JsonReader { text_value, keeps_digits }.deserialize(&mut json).ok()?;
    json.end().ok().map(|()| value)
}

/// Whether the text may hold an integer that 64 bits do not.
fn has_long_number(text: &str) -> bool {
    text.as_bytes().split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 18)
}

/// A number's text as an integer that 64 bits do not hold, where it is one.
fn long_integer(number: &str) -> Option<Value> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = || number.parse::<i64>().is_ok() || number.parse::<u64>().is_ok();
    (is_integer && !is_short()).then(|| Value::from_object(LongInteger(number.to_owned())))
}

/// Reads JSON into values.
struct JsonReader<'f, F> {
    text_value: &'f F,
    /// Whether numbers are looked at as text.
    keeps_digits: bool,
}

impl<F> Clone for JsonReader<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for JsonReader<'_, F> {}

impl<'de, F: Fn(&str) -> Value> DeserializeSeed<'de> for JsonReader<'_, F> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        if !self.keeps_digits {
            return json.deserialize_any(self);
        }
        let raw = <&RawValue>::deserialize(json)?;
        match long_integer(raw.get()) {
            Some(integer) => Ok(integer),
            None => serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(D::Error::custom),
        }
    }
}

impl<'de, F: Fn(&str) -> Value> Visitor<'de> for JsonReader<'_, F> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::from(()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(from_number(&value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(from_number(&value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(from_float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok((self.text_value)(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::from(values))
    }

    /// Of fields by the same name the last counts, in the place of the first.
    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut fields: Vec<(FieldName, Value)> = Vec::new();
        // Where the fields are, once they are too many to look through for each further one.
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some(name) = items.next_key_seed(JsonReader { keeps_digits: false, ..self })? {
            let name = FieldName::Given(name);
            let value = items.next_value_seed(self)?;
            if places.is_empty() && fields.len() >= FEW_FIELDS {
                places =
                    fields.iter().enumerate().map(|(place, (name, _))| (name.as_str().to_owned(), place)).collect();
            }
            let known = if places.is_empty() {
                fields.iter().position(|(known, _)| known.as_str() == name.as_str())
            } else {
                places.get(name.as_str()).copied()
            };
            match known {
                Some(place) => fields[place].1 = value,
                None => {
                    if !places.is_empty() {
                        places.insert(name.as_str().to_owned(), fields.len());
                    }
                    fields.push((name, value));
                }
            }
        }
        Ok(object(fields))
    }
}

/// A field of a JSON object as [`from_json_with`] makes it.
pub(crate) fn field_with((name, value): (&String, &Json), text_value: &impl Fn(&str) -> Value) -> (FieldName, Value) {
    (FieldName::Given(text_value(name)), from_json_with(value, text_value))
}

fn from_number(number: &Number) -> Value {
    if let Some(integer) = number.as_i64() {
        return Value::from(integer);
    }
    match (number.as_u64(), number.as_f64()) {
        (Some(integer), _) => Value::from(integer),
        (None, Some(float)) => from_float(float),
        (None, None) => Value::from(()),
    }
}

/// A float as templates see it.
pub(crate) fn from_float(float: f64) -> Value {
    match float_repr(float).contains('e') {
        true => Value::from_object(ExponentFloat(float)),
        false => Value::from(float),
    }
}

/// The value of a float, if it is one.
pub(crate) fn as_float(value: &Value) -> Option<f64> {
    if let Some(float) = value.downcast_object_ref::<ExponentFloat>() {
        return Some(float.0);
    }
    (value.kind() == ValueKind::Number && !value.is_integer()).then(|| f64::try_from(value.clone()).ok()).flatten()
}

/// The digits of an integer that 64 bits do not hold, if it is one.
pub(crate) fn as_long_integer(value: &Value) -> Option<&str> {
    value.downcast_object_ref::<LongInteger>().map(|integer| integer.0.as_str())
}

/// Python's `repr` of a float: the shortest digits that read back as the same number, with an exponent where the first
/// digit stands below 1e-4 or at 1e16 and above.
pub(crate) fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Rust's shortest digits are the same; only their layout differs.
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = value.to_string();
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1e100, "1e+100"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_repr(value), expected);
        }
    }

    #[test]
    fn integers_keep_their_digits() {
        use crate::python::python_json::{JsonStyle, to_json};
        use crate::python::python_repr::{python_repr, python_str};

        let read = |text: &str| from_json_text(text, &|text| Value::from(text));
        let text = r#"{"a": [123456789012345678901234567890, -18446744073709551616], "b": {"c": 18446744073709551615}, "123456789012345678901": 1.5, "d": "12345678901234567890123"}"#;
        assert_eq!(to_json(&read(text).unwrap(), &JsonStyle::default()).unwrap(), text);
        assert_eq!(python_str(&read("-123456789012345678901").unwrap()), "-123456789012345678901");
        assert_eq!(python_repr(&read("[9223372036854775808, 1e30]").unwrap()), "[9223372036854775808, 1e+30]");
        // What is no integer, or no JSON, is what it was.
        assert_eq!(python_str(&read("1234567890123456789012.5").unwrap()), "1.2345678901234568e+21");
        for broken in ["[123456789012345678901,]", "0123456789012345678901", "[123456789012345678901"] {
            assert!(read(broken).is_none(), "{broken}");
        }
        let deep = "[".repeat(100_000) + "123456789012345678901" + &"]".repeat(100_000);
        assert!(read(&deep).is_none());
    }
}
