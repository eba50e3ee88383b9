//! How the rows of a file are written: as the config says, or as the first row shows by its fields.

use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::conversation::{Conversation, form_of_log, read_row};
use super::published;
use crate::ConversationForm;

/// The fields that a conversation may have in any of its forms.
pub const CONVERSATION_KEYS: [&str; 13] = [
    "messages",
    "tools",
    "conversations",
    "conversation",
    "prompt",
    "completion",
    "instruction",
    "input",
    "context",
    "output",
    "response",
    "system",
    "history",
];

/// The form of a file's rows. What is found of the first row holds for the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowForm {
    given: ConversationForm,
    found: Arc<OnceLock<ConversationForm>>,
}

impl From<ConversationForm> for RowForm {
    fn from(given: ConversationForm) -> Self {
        Self { given, found: Arc::default() }
    }
}

impl RowForm {
    /// As the config says it.
    pub(crate) fn given(&self) -> ConversationForm {
        self.given
    }

    /// What the first row was found to be, where the config leaves that open.
    pub(crate) fn found(&self) -> Option<ConversationForm> {
        self.found.get().copied()
    }

    /// The form of a row with these fields, out of those that fit.
    ///
    /// # Errors
    /// If two forms fit, or another one than that of the first row.
    pub(crate) fn chosen(&self, fitting: &[ConversationForm]) -> Result<Option<ConversationForm>, String> {
        let form = match fitting {
            [] => return Ok(None),
            [form] => *form,
            [one, other, ..] => {
                return Err(format!(
                    "is in two shapes, {} and beside them {}: form = \"{}\" or form = \"{}\" beside the file's name chooses",
                    one.fields(),
                    other.fields(),
                    one.as_str(),
                    other.as_str()
                ));
            }
        };
        let first = *self.found.get_or_init(|| form);
        if first == form {
            return Ok(Some(form));
        }
        Err(format!(
            "is in the shape of {}, and the first row is in that of {}: a file has rows of one shape, so split it in two",
            form.fields(),
            first.fields()
        ))
    }

    /// Reads a conversation in whichever form the row has.
    pub(crate) fn read_found(&self, json: &[u8]) -> Result<Conversation, String> {
        let row: Map<String, Value> = read_row(json)?;
        let Some(form) = self.chosen(&conversation_forms(&row))? else { return Err(of_no_form(&row, json)) };
        match form {
            ConversationForm::Messages => Conversation::read(json),
            form => published::conversation(form, row),
        }
    }
}

/// Whether a row has a field. Tables that hold rows of several shapes have null in what is of another one.
pub(crate) fn has(row: &Map<String, Value>, name: &str) -> bool {
    row.get(name).is_some_and(|value| !value.is_null())
}

/// The forms of conversations that the fields of a row fit.
fn conversation_forms(row: &Map<String, Value>) -> Vec<ConversationForm> {
    let has = |name: &str| has(row, name);
    let is_labelled = row.get("label").is_some_and(Value::is_boolean);
    let fits = [
        (ConversationForm::Messages, has("messages") && !is_labelled),
        (ConversationForm::Sharegpt, has("conversations") || has("conversation")),
        (ConversationForm::PromptCompletion, has("prompt") && has("completion") && !is_labelled),
        (ConversationForm::Alpaca, has("instruction") && (has("output") || has("response"))),
    ];
    fits.into_iter().filter(|(_, fits)| *fits).map(|(form, _)| form).collect()
}

/// The forms of comparisons that the fields of a row fit.
pub(crate) fn comparison_forms(has: impl Fn(&str) -> bool) -> Vec<ConversationForm> {
    let fits = [
        (ConversationForm::Pairs, has("chosen") || has("rejected")),
        (ConversationForm::Judged, has("completion_A") || has("completion_B") || has("comparison")),
        (ConversationForm::Labels, has("label") && has("completion")),
    ];
    fits.into_iter().filter(|(_, fits)| *fits).map(|(form, _)| form).collect()
}

/// Says of a row that is no conversation what it may be.
fn of_no_form(row: &Map<String, Value>, json: &[u8]) -> String {
    if let Some(form) = form_of_log(row) {
        return form;
    }
    if let Some(form) = comparison_forms(|name| has(row, name)).first() {
        let objective = if *form == ConversationForm::Labels { "kto" } else { "dpo" };
        return format!(
            "is a comparison, {}: objective = \"{objective}\" with source = {{ comparisons = \"FILE\" }} learns from such \
             rows",
            form.fields()
        );
    }
    let words = match Conversation::read(json) {
        Err(words) => words,
        Ok(_) => "`messages` is missing".to_owned(),
    };
    let fields: Vec<&str> = row.keys().take(FIELDS_NAMED).map(String::as_str).collect();
    let fields = if fields.is_empty() { "none".to_owned() } else { format!("`{}`", fields.join("`, `")) };
    format!(
        "{words}; its fields are {fields}, and a conversation has `messages`, ShareGPT's `conversations`, `prompt` and \
         `completion`, or Alpaca's `instruction` and `output`"
    )
}

/// Fields of a row that a mistake names.
const FIELDS_NAMED: usize = 12;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(form: &RowForm, row: &Value) -> Result<Vec<String>, String> {
        let conversation = form.read_found(row.to_string().as_bytes())?;
        let text = |message: &fulgurite_types::Message| {
            let calls: Vec<&str> = message.tool_calls.iter().map(|call| call.function.name.as_str()).collect();
            format!("{}: {}{}", message.role, message.plain_text(0).unwrap(), calls.join(","))
        };
        Ok(conversation.messages.iter().map(text).collect())
    }

    #[test]
    fn a_published_row_is_found_by_its_fields() {
        let tools = json!([{ "name": "look", "description": "Looks.", "parameters": { "type": "object" } }]);
        for (row, expected) in [
            (
                json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "assistant", "content": "b" }],
                    "prompt": "a", "prompt_id": "x", "tools": "[]" }),
                vec!["user: a", "assistant: b"],
            ),
            (
                json!({ "id": "1", "conversations": [{ "from": "human", "value": "a" }, { "from": "gpt", "value": "b" }] }),
                vec!["user: a", "assistant: b"],
            ),
            (
                json!({ "system": "s", "tools": tools.to_string(), "conversations": [
                    { "from": "user", "value": "a" },
                    { "from": "function_call", "value": "{\"name\": \"look\", \"arguments\": {\"at\": 1}}" },
                    { "from": "observation", "value": "o" }, { "from": "chatgpt", "value": "b" }] }),
                vec!["system: s", "user: a", "assistant: look", "tool: o", "assistant: b"],
            ),
            (
                json!({ "conversation": [{ "role": "human", "content": "a" }, { "role": "bing", "content": "b" }] }),
                vec!["user: a", "assistant: b"],
            ),
            (json!({ "prompt": "a", "completion": "b", "label": 3 }), vec!["user: a", "assistant: b"]),
            (
                json!({ "prompt": [{ "role": "system", "content": "s" }, { "role": "user", "content": "a" }],
                    "completion": [{ "role": "assistant", "content": "b" }], "messages": null }),
                vec!["system: s", "user: a", "assistant: b"],
            ),
            (
                json!({ "system": "s", "prompt": "a", "completion": "b", "history": [] }),
                vec!["system: s", "user: a", "assistant: b"],
            ),
            (
                json!({ "system": "s", "messages": [{ "role": "user", "content": "a" },
                    { "role": "assistant", "content": "b" }] }),
                vec!["system: s", "user: a", "assistant: b"],
            ),
            (json!({ "instruction": "a", "input": "", "output": "b" }), vec!["user: a", "assistant: b"]),
            (json!({ "instruction": "a", "context": "c", "response": "b" }), vec!["user: a\n\nc", "assistant: b"]),
            (
                json!({ "instruction": "a", "input": "i", "output": "b", "system": "s", "history": [["x", "y"]] }),
                vec!["system: s", "user: x", "assistant: y", "user: a\n\ni", "assistant: b"],
            ),
        ] {
            assert_eq!(read(&RowForm::default(), &row).unwrap(), expected, "{row}");
        }
    }

    #[test]
    fn a_row_that_fits_two_shapes_or_none_or_another_is_told_of_in_words() {
        let both = json!({ "messages": [], "conversations": [] });
        for (row, expected) in [
            (
                both,
                "is in two shapes, `messages` and beside them ShareGPT's `conversations`: form = \"messages\" or form = \"sharegpt\"",
            ),
            (json!({ "text": "a" }), "`messages` is missing"),
            (json!({ "text": "a" }), "its fields are `text`"),
            (
                json!({ "prompt": "a", "chosen": "b", "rejected": "c" }),
                "is a comparison, `chosen` and `rejected`: objective = \"dpo\"",
            ),
            (json!({ "prompt": "a", "completion": "b", "label": true }), "objective = \"kto\""),
            (json!({ "conversations": "x" }), "`conversations` is text, and no JSON"),
            (
                json!({ "conversations": [{ "from": null, "value": "a" }] }),
                "message 0 of `conversations` has no `from`",
            ),
            (
                json!({ "conversations": [{ "from": "asistant", "value": "a" }] }),
                "is from `asistant`; did you mean `assistant`?",
            ),
            (
                json!({ "conversations": [{ "from": "gpt", "value": null }] }),
                "message 0 of `conversations` has no `value`",
            ),
            (json!({ "conversations": ["a"] }), "message 0 of `conversations` is no object"),
            (
                json!({ "conversations": [{ "from": "function_call", "value": "look" }] }),
                "message 0 of `conversations` is a call that is no JSON of `name` and `arguments`",
            ),
            (json!({ "instruction": 3, "output": "a" }), "`instruction` is no text"),
            (json!({ "instruction": "a", "output": "a", "history": ["x"] }), "`history` is no list of pairs"),
            (json!({ "prompt": 3, "completion": "a" }), "has a `prompt` that is neither a text nor"),
            (json!({ "prompt": "a", "completion": [{ "role": "user", "content": "b" }] }), "but the assistant answers"),
        ] {
            let message = read(&RowForm::default(), &row).unwrap_err();
            assert!(message.contains(expected), "{row}: {message}");
        }
        let form = RowForm::default();
        read(&form, &json!({ "instruction": "a", "output": "b" })).unwrap();
        let message = read(&form, &json!({ "prompt": "a", "completion": "b" })).unwrap_err();
        assert!(
            message
                .starts_with("is in the shape of `prompt` and `completion`, and the first row is in that of Alpaca's"),
            "{message}"
        );
    }
}
