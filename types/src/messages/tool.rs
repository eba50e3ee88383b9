use std::borrow::Cow;

use serde_json::{Map, Value};
use thiserror::Error;

/// A tool's declaration, read in place: OpenAI's `{"type": "function", "function": {...}}`, or the bare function.
///
/// The declaration itself stays the JSON that was given, because templates write it out whole and in its order.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'t> {
    /// All of it.
    pub given: &'t Value,
    /// The function: `name`, `description`, `parameters`.
    pub function: &'t Map<String, Value>,
    /// The function's name; not empty.
    pub name: &'t str,
}

/// Why a declaration cannot be read; it continues a sentence that names the tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ToolFault {
    /// Neither it nor what it wraps is an object.
    #[error("is not an object")]
    NoObject,
    /// The function's name is absent, empty or no text.
    #[error("has no `name`")]
    NoName,
}

impl<'t> Tool<'t> {
    /// Reads a declaration.
    ///
    /// # Errors
    /// If it is no object, or has no name.
    pub fn read(given: &'t Value) -> Result<Self, ToolFault> {
        let function = given.get("function").unwrap_or(given).as_object().ok_or(ToolFault::NoObject)?;
        let name = function.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        Ok(Self { given, function, name: name.ok_or(ToolFault::NoName)? })
    }

    /// Whether the function stands in OpenAI's wrapper.
    pub fn is_wrapped(&self) -> bool {
        self.given.get("function").is_some()
    }

    /// What the tool does; empty where it is not described.
    pub fn description(&self) -> &'t str {
        self.function.get("description").and_then(Value::as_str).unwrap_or_default()
    }

    /// JSON schema of the arguments; an empty object where there is none.
    pub fn parameters(&self) -> Cow<'t, Value> {
        self.function.get("parameters").map_or_else(|| Cow::Owned(Value::Object(Map::new())), Cow::Borrowed)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_wrapped_function_reads_as_the_bare_one() {
        let bare = json!({ "name": "add", "description": "Adds.", "parameters": { "type": "object" } });
        let wrapped = json!({ "type": "function", "function": bare });
        for (given, is_wrapped) in [(&bare, false), (&wrapped, true)] {
            let tool = Tool::read(given).unwrap();
            assert_eq!((tool.name, tool.description(), tool.is_wrapped()), ("add", "Adds.", is_wrapped));
            assert_eq!(*tool.parameters(), json!({ "type": "object" }));
        }
        assert_eq!(*Tool::read(&json!({ "name": "now" })).unwrap().parameters(), json!({}));
    }

    #[test]
    fn what_names_no_function_is_refused_by_cause() {
        for (given, fault) in [
            (json!("add"), ToolFault::NoObject),
            (json!({ "type": "function", "function": "add" }), ToolFault::NoObject),
            (json!({ "type": "web_search" }), ToolFault::NoName),
            (json!({ "name": "" }), ToolFault::NoName),
            (json!({ "function": { "name": 3 } }), ToolFault::NoName),
        ] {
            assert_eq!(Tool::read(&given).unwrap_err(), fault, "{given}");
        }
    }
}
