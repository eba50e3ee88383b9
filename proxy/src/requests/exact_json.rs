//! JSON of requests and answers with integers that 64 bits do not hold, which models and clients in Python write. As a
//! [`Value`] they would be rounded, so that the text is kept where they stand.

use std::collections::BTreeMap;

use fulgurite_renderers::respelled_json;
use fulgurite_types::with_long_numbers;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::requests::request_body::OF_VALUES;

/// The fields of an object whose values are not read yet.
pub(crate) type RawFields<'b> = BTreeMap<String, &'b RawValue>;

/// A step of the way from a body to the values that are looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A field by one of these names; its place is written with the first.
    Field(&'static [&'static str]),
    /// The same, which is no part of the place.
    Inside(&'static [&'static str]),
    /// The items of a list. What stands alone is a list of one.
    Items,
}

/// The way to a body itself.
pub(crate) const WHOLE: &[Step] = &[];

/// The texts of those values of a body that hold long integers, by their places, such as `messages[1].content[0].input`.
#[derive(Debug, Default)]
pub(crate) struct ExactValues(BTreeMap<String, String>);

impl ExactValues {
    /// Looks for values at the ends of those ways. A body that is no JSON has none.
    pub(crate) fn read(body: &[u8], ways: &[&[Step]]) -> Self {
        let mut found = BTreeMap::new();
        if may_hold_long_integer(body)
            && let Ok(body) = serde_json::from_slice::<&RawValue>(body)
        {
            ways.iter().for_each(|way| collect(body, String::new(), way, &mut found));
        }
        Self(found)
    }

    /// The text of the value at a place, if it holds a long integer.
    pub(crate) fn get(&self, place: &str) -> Option<&str> {
        self.0.get(place).map(String::as_str)
    }

    /// The digest of a request by that of its body, in which long integers are rounded: two that differ in them alone are
    /// not the same.
    pub(crate) fn digest(&self, of_body: String) -> String {
        if self.0.is_empty() {
            return of_body;
        }
        let mut digest = Sha256::new().chain_update(of_body);
        for text in self.0.iter().flat_map(|(place, text)| [place, text]) {
            digest.update((text.len() as u64).to_le_bytes());
            digest.update(text);
        }
        format!("{:x}", digest.finalize())
    }
}

/// The JSON that a text is, on one line, whose long integers keep their digits; `None` where it is none.
pub(crate) fn exact_json(text: &str) -> Option<Box<RawValue>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let exact = match may_hold_long_integer(text.as_bytes()) {
        true => respelled_json(text)?,
        false => value.to_string(),
    };
    RawValue::from_string(exact).ok()
}

/// The value of a JSON text, or the text where a value would round it. What is no JSON stays text.
pub(crate) fn value_or_text(text: &str) -> Value {
    let value = || serde_json::from_str(text).unwrap_or_else(|_| text.into());
    let exact = may_hold_long_integer(text.as_bytes()).then(|| respelled_json(text)).flatten();
    exact.map_or_else(value, Value::String)
}

/// The JSON text of fields, of which those that a body has with the same value are spelled as there.
pub(crate) fn object_text(fields: &Map<String, Value>, body: &[u8]) -> String {
    let spelled: RawFields<'_> = match may_hold_long_integer(body) {
        // What is no object has no fields that are spelled in some way.
        true => serde_json::from_slice(body).unwrap_or_default(),
        false => RawFields::default(),
    };
    let is_read_as = |raw: &RawValue, value: &Value| {
        let spelled = with_long_numbers(raw.get().as_bytes(), OF_VALUES - 1);
        let json = spelled.as_deref().unwrap_or(raw.get().as_bytes());
        serde_json::from_slice::<Value>(json).is_ok_and(|read| read == *value)
    };
    let field = |(key, value): (&String, &Value)| {
        let spelled = spelled.get(key).filter(|raw| is_read_as(raw, value));
        format!(
            "{}:{}",
            Value::from(key.as_str()),
            spelled.map_or_else(|| fulgurite_types::exact_json(value), |raw| raw.get().to_owned())
        )
    };
    format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
}

/// Whether JSON may hold an integer that 64 bits do not.
fn may_hold_long_integer(json: &[u8]) -> bool {
    json.split(|byte| !byte.is_ascii_digit()).any(|digits| digits.len() > 18)
}

fn collect(value: &RawValue, place: String, way: &[Step], found: &mut BTreeMap<String, String>) {
    let Some((step, rest)) = way.split_first() else {
        if may_hold_long_integer(value.get().as_bytes()) {
            found.insert(place, value.get().to_owned());
        }
        return;
    };
    match step {
        Step::Field(names) | Step::Inside(names) => {
            let Ok(fields) = serde_json::from_str::<RawFields<'_>>(value.get()) else { return };
            let given = names.iter().filter_map(|name| fields.get(*name)).find(|field| field.get() != "null");
            let (Some(field), Some(name)) = (given, names.first()) else { return };
            let place = match (step, place.is_empty()) {
                (Step::Inside(_), _) => place,
                (_, true) => (*name).to_owned(),
                (_, false) => format!("{place}.{name}"),
            };
            collect(field, place, rest, found);
        }
        Step::Items => {
            let items: Vec<&RawValue> = match value.get().starts_with('[') {
                // It was read before, as a list.
                true => serde_json::from_str(value.get()).unwrap_or_default(),
                false => vec![value],
            };
            for (index, item) in items.into_iter().enumerate() {
                collect(item, format!("{place}[{index}]"), rest, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: &[Step] = &[
        Step::Inside(&["in"]),
        Step::Field(&["lists"]),
        Step::Items,
        Step::Field(&["theCall", "the_call"]),
        Step::Field(&["args"]),
    ];

    #[test]
    fn values_with_long_integers_are_found_by_their_places() {
        let body = br#"{ "in": { "lists": [
            {"the_call": {"args": {"n":123456789012345678901234567890}}}, {"theCall": {"args": {"n": 1}}}, "text", null,
            {"theCall": null, "the_call": {"args": {"n": [18446744073709551616]}}} ] } }"#;
        let found = ExactValues::read(body, &[WAY]);
        assert_eq!(found.get("lists[0].theCall.args"), Some(r#"{"n":123456789012345678901234567890}"#));
        assert_eq!(found.get("lists[1].theCall.args"), None);
        assert_eq!(found.get("lists[4].theCall.args"), Some(r#"{"n": [18446744073709551616]}"#));
        let alone = br#"{ "in": { "lists": {"theCall": {"args": {"n":123456789012345678901234567890}}} } }"#;
        assert!(ExactValues::read(alone, &[WAY]).get("lists[0].theCall.args").is_some());
        for none in [&br#"{"in": 123456789012345678901}"#[..], b"123456789012345678901", b"[123456789012345678901", b""]
        {
            assert!(ExactValues::read(none, &[WAY]).0.is_empty());
        }
    }

    #[test]
    fn an_object_is_spelled_as_its_body_but_for_what_was_changed() {
        let body = br#"{"model":"a", "n": {"of" : 123456789012345678901234567890}, "left_out": 1, "half": 0.5, "n\u00e9": 2 }"#;
        let mut fields: Map<String, Value> = serde_json::from_slice(body).unwrap();
        fields.insert("model".to_owned(), "b".into());
        fields.remove("left_out");
        let text = object_text(&fields, body);
        assert!(text.contains(r#""n":{"of" : 123456789012345678901234567890}"#), "{text}");
        assert_eq!(serde_json::from_str::<Map<String, Value>>(&text).unwrap(), fields);
        assert_eq!(object_text(&fields, b""), Value::Object(fields).to_string());
        assert_eq!(object_text(&Map::new(), body), "{}");
    }

    #[test]
    fn a_text_is_its_value_unless_that_is_rounded() {
        let long = r#"{ "n" : 123456789012345678901234567890 }"#;
        assert!(value_or_text(long).as_str().unwrap().contains("123456789012345678901234567890"));
        assert_eq!(value_or_text(r#"{"n": 1}"#), serde_json::json!({ "n": 1 }));
        assert_eq!(value_or_text(r#"{"n": "#), r#"{"n": "#);
    }

    #[test]
    fn requests_that_differ_in_rounded_digits_alone_are_not_the_same() {
        let digest = |digits: &str| {
            let body = format!("{{\"in\": {{\"lists\": [{{\"theCall\": {{\"args\": {{\"n\": {digits}}}}}}}]}}}}");
            ExactValues::read(body.as_bytes(), &[WAY]).digest("d".to_owned())
        };
        assert_eq!(digest("17"), "d");
        assert_eq!(digest("123456789012345678901234567890"), digest("123456789012345678901234567890"));
        assert_ne!(digest("123456789012345678901234567890"), digest("123456789012345678901234567891"));
    }

    #[test]
    fn exact_json_is_on_one_line_and_only_what_can_be_read() {
        let exact = |text: &str| exact_json(text).map(|json| json.get().to_owned());
        assert_eq!(exact("{\"b\": 1,\n\"a\": [2.0]} ").unwrap(), r#"{"b":1,"a":[2.0]}"#);
        let long = "{\"n\":\n123456789012345678901234567890}\n";
        assert_eq!(exact(long).unwrap(), r#"{"n": 123456789012345678901234567890}"#);
        assert_eq!(exact("{\"n\": 123456789012345678901234567890"), None);
    }
}
