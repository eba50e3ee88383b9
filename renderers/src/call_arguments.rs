use std::borrow::Cow;

use fulgurite_types::FunctionCall;
use serde_json::Value;

use crate::python::python_json::{JsonStyle, dumps};

/// The arguments of a tool call as text: a string as it was given, anything else as JSON in the spelling of Python's
/// `json.dumps`.
pub fn arguments_text(function: &FunctionCall) -> Cow<'_, str> {
    match &function.arguments {
        Value::String(text) => Cow::Borrowed(text),
        Value::Null => Cow::Borrowed("{}"),
        object => Cow::Owned(dumps(object, &JsonStyle { ensure_ascii: false, ..JsonStyle::default() })),
    }
}
