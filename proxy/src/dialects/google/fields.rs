use serde_json::{Map, Value};

use crate::dialects::field_checks::refuse;
use crate::error::ProxyError;

/// An object of a request and its place in it, of which readers take the fields that they know. A field that is null is
/// none.
#[derive(Debug)]
pub(super) struct Fields {
    place: String,
    fields: Map<String, Value>,
}

impl Fields {
    /// A request's body.
    pub(super) fn of_body(body: Map<String, Value>) -> Result<Self, ProxyError> {
        Self::of_object(String::new(), body)
    }

    /// What stands at that place, which must be an object.
    pub(super) fn at(place: String, value: Value) -> Result<Self, ProxyError> {
        match value {
            Value::Object(fields) => Self::of_object(place, fields),
            _ => Err(must(&place, "must be an object")),
        }
    }

    fn of_object(place: String, object: Map<String, Value>) -> Result<Self, ProxyError> {
        let mut read = Self { place, fields: Map::new() };
        for (name, value) in object.into_iter().filter(|(_, value)| !value.is_null()) {
            let name = camel_case(&name);
            if read.fields.contains_key(&name) {
                refuse(&read.place_of(&name), "is given twice, in camelCase and in snake_case")?;
            }
            read.fields.insert(name, value);
        }
        Ok(read)
    }

    /// Where the object stands.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Where a field of it stands.
    pub(super) fn place_of(&self, name: &str) -> String {
        match self.place.as_str() {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        }
    }

    /// The name of some field that is left.
    pub(super) fn any_left(&self) -> Option<&str> {
        self.fields.keys().next().map(String::as_str)
    }

    /// Adds the places of all fields that are left, without the indexes of lists.
    pub(super) fn tell_left(&self, unknown: &mut Vec<String>) {
        for name in self.fields.keys() {
            let mut in_index = false;
            let place = self.place_of(name);
            let plain = place.chars().filter(|character| {
                in_index = (in_index || *character == '[') && *character != ']';
                !in_index && *character != ']'
            });
            let plain: String = plain.collect();
            if !unknown.contains(&plain) {
                unknown.push(plain);
            }
        }
    }

    /// All fields that are left.
    pub(super) fn into_rest(self) -> Map<String, Value> {
        self.fields
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.shift_remove(name)
    }

    pub(super) fn string(&mut self, name: &str) -> Result<Option<String>, ProxyError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.must_be(name, "a string")),
        }
    }

    pub(super) fn boolean(&mut self, name: &str) -> Result<Option<bool>, ProxyError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Bool(value)) => Ok(Some(value)),
            Some(_) => Err(self.must_be(name, "true or false")),
        }
    }

    /// A number, which protobuf's JSON may also write as text.
    pub(super) fn number(&mut self, name: &str) -> Result<Option<f64>, ProxyError> {
        let number = match self.take(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        let number = number.filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| self.must_be(name, "a number"))
    }

    /// A whole number, which clients also write as `40.0` or as text.
    pub(super) fn integer(&mut self, name: &str) -> Result<Option<i64>, ProxyError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        whole_number(&value).map(Some).ok_or_else(|| self.must_be(name, "a whole number"))
    }

    /// The items of a list. One that stands alone is a list of one, as it is for Google's servers.
    pub(super) fn list(&mut self, name: &str) -> Vec<Value> {
        match self.take(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(alone) => vec![alone],
        }
    }

    pub(super) fn strings(&mut self, name: &str) -> Result<Vec<String>, ProxyError> {
        let items = self.list(name).into_iter().map(|item| match item {
            Value::String(text) => Ok(text),
            _ => Err(self.must_be(name, "a list of strings")),
        });
        items.collect()
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Option<Fields>, ProxyError> {
        self.take(name).map(|value| Fields::at(self.place_of(name), value)).transpose()
    }

    pub(super) fn objects(&mut self, name: &str) -> Result<Vec<Fields>, ProxyError> {
        let place = self.place_of(name);
        let items = self.list(name).into_iter().enumerate();
        items.map(|(index, item)| Fields::at(format!("{place}[{index}]"), item)).collect()
    }

    fn must_be(&self, name: &str, what: &str) -> ProxyError {
        must(&self.place_of(name), &format!("must be {what}"))
    }
}

/// A refusal of what stands at a place.
pub(super) fn must(place: &str, why: &str) -> ProxyError {
    ProxyError::invalid(place, format!("{place} {why}"))
}

/// A whole number, however it is written.
pub(super) fn whole_number(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| {
            let float = number.as_f64()?;
            // Up to there every whole number has a float of its own.
            (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then_some(float as i64)
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A field's name in camelCase. Underscores before it, which Google has before one name, do not count.
pub(super) fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut is_next_upper = false;
    for character in name.trim_start_matches('_').chars() {
        match character {
            '_' => is_next_upper = true,
            _ if std::mem::take(&mut is_next_upper) => camel.extend(character.to_uppercase()),
            _ => camel.push(character),
        }
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dialects::field_checks::refused_field;

    fn fields(value: Value) -> Fields {
        Fields::at("a[1].b".to_owned(), value).unwrap()
    }

    #[test]
    fn both_spellings_of_a_name_are_one_field() {
        let names = ["top_k", "topK", "_responseJsonSchema", "response_json_schema", "x"];
        let camel = ["topK", "topK", "responseJsonSchema", "responseJsonSchema", "x"];
        assert_eq!(names.map(camel_case), camel);
        let twice = Fields::of_body(json!({ "top_k": 1, "topK": 1 }).as_object().unwrap().clone());
        assert_eq!(refused_field(twice.unwrap_err()), "topK");
        let null_counts_for_nothing = Fields::of_body(json!({ "top_k": 1, "topK": null }).as_object().unwrap().clone());
        assert_eq!(null_counts_for_nothing.unwrap().integer("topK").unwrap(), Some(1));
    }

    #[test]
    fn numbers_are_read_as_clients_write_them() {
        for (value, integer, number) in [
            (json!(40), Some(40), Some(40.0)),
            (json!(40.0), Some(40), Some(40.0)),
            (json!("40"), Some(40), Some(40.0)),
            (json!(0.5), None, Some(0.5)),
            (json!("0.5"), None, Some(0.5)),
            (json!(1e300), None, Some(1e300)),
            (json!("warm"), None, None),
            (json!("NaN"), None, None),
            (json!(true), None, None),
        ] {
            let read = || fields(json!({ "n": value }));
            assert_eq!(read().integer("n").map_err(refused_field), integer.map(Some).ok_or("a[1].b.n".to_owned()));
            assert_eq!(read().number("n").map_err(refused_field), number.map(Some).ok_or("a[1].b.n".to_owned()));
        }
        assert_eq!(fields(json!({})).integer("n").unwrap(), None);
    }

    #[test]
    fn what_is_left_is_told_without_indexes() {
        let mut unknown = Vec::new();
        for _ in 0..2 {
            let mut read = fields(json!({ "known": ["k"], "other": 1 }));
            assert_eq!(read.strings("known").unwrap(), ["k"]);
            read.tell_left(&mut unknown);
        }
        assert_eq!(unknown, ["a.b.other"]);
        assert_eq!(fields(json!({ "alone": {} })).objects("alone").unwrap()[0].place(), "a[1].b.alone[0]");
        assert_eq!(refused_field(fields(json!({ "o": 1 })).object("o").unwrap_err()), "a[1].b.o");
    }
}
