use serde_json::{Map, Value, json};

use crate::python::python_json_decoder::{PythonJsonError, loads};
use crate::python::python_strings::is_space;

/// A message while it is put together.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) content: Value,
    pub(super) tool_calls: Vec<Value>,
    pub(super) unparsed: Vec<Value>,
}

impl Draft {
    pub(super) fn of_text(text: String) -> Self {
        Self { content: text.into(), ..Self::default() }
    }

    pub(super) fn call(&mut self, id: Option<&str>, name: &str, arguments: &str) {
        let function = json!({"name": name, "arguments": arguments});
        self.tool_calls.push(json!({"type": "function", "id": id, "function": function}));
    }

    pub(super) fn unparsed(&mut self, raw_text: &str, error: &str) {
        self.unparsed.push(json!({"raw_text": raw_text, "error": error}));
    }

    /// Adds a call whose arguments must be JSON.
    pub(super) fn call_with_json(&mut self, raw_text: &str, id: Option<&str>, name: &str, arguments: &str) {
        match loads(arguments) {
            Ok(_) => self.call(id, name, strip(arguments)),
            Err(error) => self.unparsed(raw_text, &invalid_json(&error)),
        }
    }

    pub(super) fn into_message(self) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), "assistant".into());
        message.insert("content".to_owned(), self.content);
        for (key, calls) in [("tool_calls", self.tool_calls), ("unparsed_tool_calls", self.unparsed)] {
            if !calls.is_empty() {
                message.insert(key.to_owned(), calls.into());
            }
        }
        message.into()
    }
}

pub(super) fn invalid_json(error: &PythonJsonError) -> String {
    format!("Invalid JSON: {error}")
}

/// Python's `str.strip`.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}
