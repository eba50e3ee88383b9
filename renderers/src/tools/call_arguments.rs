use std::borrow::Cow;

use fulgurite_types::FunctionCall;
use serde_json::Value;

use crate::python::python_json::{JsonStyle, dumps, to_json};
use crate::python::python_text::from_json_text;

/// The arguments of a tool call as text: a string as it was given, anything else as JSON in the spelling of Python's
/// `json.dumps`.
pub fn arguments_text(function: &FunctionCall) -> Cow<'_, str> {
    match &function.arguments {
        arguments if is_null(arguments) => Cow::Borrowed("{}"),
        Value::String(text) => Cow::Borrowed(text),
        object => Cow::Owned(dumps(object, &spelling())),
    }
}

/// Whether a call has no arguments: null, or its spelling as text, as clients write it for a tool without parameters.
pub(crate) fn is_null(arguments: &Value) -> bool {
    arguments.is_null() || arguments.as_str().is_some_and(|text| text.trim() == "null")
}

/// JSON text in the same spelling, in which integers that 64 bits do not hold keep their digits; `None` where the text is
/// no JSON.
pub fn respelled_json(text: &str) -> Option<String> {
    let value = from_json_text(text, &|text| minijinja::Value::from(text))?;
    to_json(&value, &spelling()).ok()
}

fn spelling() -> JsonStyle {
    JsonStyle { ensure_ascii: false, ..JsonStyle::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn null_is_no_arguments_as_a_value_and_as_text() {
        for arguments in [Value::Null, json!("null"), json!(" null\n"), json!({})] {
            let function = FunctionCall { name: String::new(), arguments, extra: Map::new() };
            assert_eq!(arguments_text(&function), "{}");
        }
    }

    #[test]
    fn text_is_spelled_as_its_value_is_and_keeps_the_digits_of_long_integers() {
        for value in [json!({ "a": [1, 2.5, null], "é": { "b": "c\n" } }), json!([]), json!(1e30)] {
            let function = FunctionCall { name: String::new(), arguments: value.clone(), extra: Map::new() };
            assert_eq!(respelled_json(&value.to_string()).unwrap(), arguments_text(&function));
        }
        let long = "{\"n\":[123456789012345678901234567890,\n-98765432109876543210],\"s\":\"x\"}";
        let spelled = "{\"n\": [123456789012345678901234567890, -98765432109876543210], \"s\": \"x\"}";
        assert_eq!(respelled_json(long).as_deref(), Some(spelled));
        assert_eq!(respelled_json("{\"n\": 12345678901234567890"), None);
    }
}
