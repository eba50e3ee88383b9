//! A row of conversations: what it says, and what of it cannot be.

use std::collections::HashSet;

use fulgurite_backends::{Notation, plain_words};
use fulgurite_types::{MendedJson, Message, Tool, ToolCall, mended_json, nearest_name};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::written_messages::{no_history, with_system};
use crate::ConversationForm;

/// Who may speak.
const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// A conversation that says what it must, with what its messages say of their training.
#[derive(Clone, Debug)]
pub(crate) struct Conversation {
    /// Without their marks.
    pub(crate) messages: Vec<Message>,
    pub(crate) tools: Vec<Value>,
    /// Of each message.
    pub(crate) marks: Vec<Marks>,
    /// Messages of a prompt whose completion alone is trained, unless more than the assistant's messages are.
    pub(crate) prompt_length: usize,
}

/// What a message says of its training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Marks {
    /// What its trained tokens count, in place of 1.
    pub(crate) weight: Option<f32>,
    /// Whether it is trained, where the messages say so themselves.
    pub(crate) trainable: Option<bool>,
}

/// A row as it is written. Other columns are other people's.
#[derive(Deserialize)]
struct ConversationRow {
    messages: Vec<Message>,
    #[serde(default)]
    system: Option<Value>,
    #[serde(default)]
    tools: Option<Value>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

impl Conversation {
    /// Reads a row of JSON; says of a mistake what it is.
    pub(crate) fn read(json: &[u8]) -> Result<Self, String> {
        let shape = |columns: &Map<String, Value>| {
            row_shape(|name| columns.contains_key(name)).filter(|_| !columns.contains_key("messages"))
        };
        let of_others = |columns: &Map<String, Value>| shape(columns).or_else(|| form_of_log(columns));
        let as_log = |words: String| read_row(json).ok().as_ref().and_then(of_others).unwrap_or(words);
        let mut row: ConversationRow = read_row(json).map_err(as_log)?;
        form_of_log(&row.other).map_or(Ok(()), Err)?;
        check_columns(&row.other, &["messages", "system", "tools"])?;
        no_history(&row.other)?;
        with_system(row.system, &mut row.messages)?;
        Self::of(row.messages, read_tools(row.tools)?)
    }

    /// Checks messages and tools, and takes the marks off the messages.
    pub(crate) fn of(mut messages: Vec<Message>, tools: Vec<Value>) -> Result<Self, String> {
        if messages.is_empty() {
            return Err("has no messages".to_owned());
        }
        let declared = tools.iter().enumerate().map(|(index, tool)| tool_name(index, tool));
        let declared: HashSet<String> = declared.collect::<Result<_, _>>()?;
        let mut calls: HashSet<String> = HashSet::new();
        let mut has_called = false;
        let mut marks = Vec::with_capacity(messages.len());
        for (index, message) in messages.iter_mut().enumerate() {
            let of_message = |words: String| format!("message {index} {words}");
            marks.push(take_marks(message).map_err(of_message)?);
            check_message(message).map_err(of_message)?;
            for call in &message.tool_calls {
                check_call(call, &declared).map_err(of_message)?;
                has_called = true;
                calls.extend(call.id.clone());
            }
            if message.role == "tool" {
                check_answer(message, has_called, &calls).map_err(of_message)?;
            }
        }
        Ok(Self { messages, tools, marks, prompt_length: 0 })
    }
}

/// Reads a row; says of a mistake where in it it is.
pub(crate) fn read_row<R: DeserializeOwned>(json: &[u8]) -> Result<R, String> {
    if json.starts_with(b"\xef\xbb\xbf") {
        return Err("begins with a byte order mark; save the file as UTF-8 without one".to_owned());
    }
    let mended = MendedJson::of(json);
    let json = mended.as_ref().map_or(json, |mended| &mended.text);
    let text = std::str::from_utf8(json).map_err(|error| {
        format!("is not UTF-8: byte {} of it is {:#04x}", error.valid_up_to() + 1, json[error.valid_up_to()])
    })?;
    let mut deserializer = serde_json::Deserializer::from_str(text.trim_end());
    let wrong = |error: serde_json::Error| {
        let words = plain_words(&error.to_string(), "", Notation::Json);
        match error.is_syntax() || error.is_eof() {
            true => format!("is not JSON: {words}"),
            false => words,
        }
    };
    let row = R::deserialize(&mut deserializer).map_err(wrong)?;
    deserializer.end().map_err(|error| format!("goes on behind the conversation: {error}"))?;
    Ok(row)
}

/// Declarations of tools: a list, or JSON text of one.
pub(crate) fn read_tools(tools: Option<Value>) -> Result<Vec<Value>, String> {
    let wrong = |_| "has `tools` that are neither a list nor JSON text of one".to_owned();
    match tools {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => {
            serde_json::from_str::<Option<_>>(&mended_json(&text)).map(Option::unwrap_or_default)
        }
        Some(tools) => serde_json::from_value(tools),
    }
    .map_err(wrong)
}

/// Says of a row that another program logged how it is read: its prompt alone would be taken for a conversation.
pub(crate) fn form_of_log(columns: &Map<String, Value>) -> Option<String> {
    let forms = [("litellm", ["call_type", "response"]), ("langfuse", ["input", "output"])];
    let (form, _) = forms.into_iter().find(|(_, needed)| needed.iter().all(|name| columns.contains_key(*name)))?;
    Some(format!("looks like a call that was logged: form = \"{form}\" beside the file's name reads such rows"))
}

/// Says of a row in the shape in which others publish data which form reads it; `has` tells its columns.
fn row_shape(has: impl Fn(&str) -> bool) -> Option<String> {
    let form = if has("conversations") || has("conversation") {
        ConversationForm::Sharegpt
    } else if has("instruction") && has("output") {
        ConversationForm::Alpaca
    } else if has("prompt") && has("completion") {
        ConversationForm::PromptCompletion
    } else {
        return None;
    };
    Some(format!(
        "is in the shape of {}: leave out form = \"messages\", or say form = \"{}\"",
        form.fields(),
        form.as_str()
    ))
}

/// Columns of others are left alone, but for those that look like ours.
pub(crate) fn check_columns(other: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    if other.contains_key("functions") {
        return Err("has `functions`, which nobody reads any more: declare them as `tools`".to_owned());
    }
    for name in ["weight", "trainable"] {
        if other.contains_key(name) {
            return Err(format!("has `{name}`, which a message may have, and a row may not"));
        }
    }
    let alike = |name: &&String| is_alike(name, known);
    match other.keys().find(alike) {
        Some(name) => {
            let nearest = nearest_name(name, known).unwrap_or_default();
            Err(format!("has no key `{name}`; did you mean `{nearest}`?"))
        }
        None => Ok(()),
    }
}

/// Whether a name is one of these but for a letter or its case.
fn is_alike(name: &str, known: &[&str]) -> bool {
    let lower = name.to_ascii_lowercase();
    known.iter().any(|known| {
        let (short, long) = if lower.len() < known.len() { (lower.as_str(), *known) } else { (*known, lower.as_str()) };
        lower == *known || (long.len() - short.len() <= 1 && long.starts_with(short)) || is_swapped(&lower, known)
    })
}

/// Whether two names have the same letters in nearly the same order.
fn is_swapped(name: &str, known: &str) -> bool {
    let sorted = |name: &str| {
        let mut bytes = name.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    name.len() == known.len() && sorted(name) == sorted(known)
}

fn take_marks(message: &mut Message) -> Result<Marks, String> {
    let weight = match message.extra.shift_remove("weight") {
        None | Some(Value::Null) => None,
        Some(value) => match value.as_f64().map(|weight| weight as f32) {
            Some(weight) if weight.is_finite() && weight >= 0.0 => Some(weight),
            _ => return Err(format!("has the weight {value}, but it must be a number of at least 0")),
        },
    };
    let trainable = match message.extra.shift_remove("trainable") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(trainable)) => Some(trainable),
        Some(value) => return Err(format!("has trainable = {value}, but it must be true or false")),
    };
    if let Some(name) = message.extra.keys().find(|name| is_alike(name, &["weight", "trainable", "content"])) {
        let nearest = nearest_name(name, &["weight", "trainable", "content"]).unwrap_or_default();
        return Err(format!("has no key `{name}`; did you mean `{nearest}`?"));
    }
    Ok(Marks { weight, trainable })
}

fn check_message(message: &Message) -> Result<(), String> {
    if !ROLES.contains(&message.role.as_str()) {
        return Err(match nearest_name(&message.role, &ROLES) {
            Some(nearest) => format!("has the role `{}`; did you mean `{nearest}`?", message.role),
            None => format!("has the role `{}`; there is `{}`", message.role, ROLES.join("`, `")),
        });
    }
    if message.extra.contains_key("function_call") {
        return Err("has `function_call`, which nobody reads any more: write it as `tool_calls`".to_owned());
    }
    match (message.is_assistant(), message.tool_calls.is_empty()) {
        (false, false) => Err(format!("has tool_calls, and only the assistant calls tools, not `{}`", message.role)),
        (true, false) => Ok(()),
        _ if message.content.is_none() => Err("has no content".to_owned()),
        _ => Ok(()),
    }
}

fn check_call(call: &ToolCall, declared: &HashSet<String>) -> Result<(), String> {
    let name = call.function.name.as_str();
    if !declared.contains(name) {
        let mut known: Vec<&str> = declared.iter().map(String::as_str).collect();
        known.sort_unstable();
        return Err(match (nearest_name(name, &known), known.is_empty()) {
            (_, true) => format!("calls the tool `{name}`, and the row declares no `tools`"),
            (Some(nearest), _) => format!("calls the tool `{name}`, which is not declared; did you mean `{nearest}`?"),
            (None, _) => format!("calls the tool `{name}`, which is not declared; there is `{}`", known.join("`, `")),
        });
    }
    match &call.function.arguments {
        Value::String(text) if serde_json::from_str::<Map<String, Value>>(&mended_json(text)).is_err() => {
            Err(format!("calls `{name}` with arguments that are no JSON object"))
        }
        Value::String(_) | Value::Object(_) | Value::Null => Ok(()),
        _ => Err(format!("calls `{name}` with arguments that are no JSON object")),
    }
}

fn check_answer(message: &Message, has_called: bool, calls: &HashSet<String>) -> Result<(), String> {
    match &message.tool_call_id {
        Some(id) if !calls.contains(id) => Err(format!("answers the call `{id}`, which no message before it makes")),
        None if !has_called => Err("is a tool's, and no message before it calls one".to_owned()),
        _ => Ok(()),
    }
}

/// The name that OpenAI's declaration of a tool gives it.
fn tool_name(index: usize, tool: &Value) -> Result<String, String> {
    match Tool::read(tool) {
        Ok(tool) if tool.is_wrapped() && tool.given["type"] == "function" => Ok(tool.name.to_owned()),
        _ => {
            let form = "{\"type\": \"function\", \"function\": {\"name\": ...}}";
            Err(format!("declares a tool {index} that is not of the form {form}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(row: &str) -> String {
        Conversation::read(row.as_bytes()).unwrap_err()
    }

    #[test]
    fn a_row_that_is_no_conversation_is_told_of_in_words() {
        let turns = r#"{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}"#;
        let tools = r#""tools": [{"type": "function", "function": {"name": "look"}}]"#;
        let call = |name: &str, arguments: &str| {
            format!(
                r#"{{"messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": null, "tool_calls":
                [{{"id": "c", "function": {{"name": "{name}", "arguments": {arguments}}}}}]}}], {tools}}}"#
            )
        };
        Conversation::read(call("look", "\"{}\"").as_bytes()).unwrap();
        Conversation::read(format!("{{\"messages\": [{turns}], \"id\": 7, \"source\": \"x\"}}\r\n").as_bytes())
            .unwrap();
        for (row, expected) in [
            ("{\"messages\": [".to_owned(), "is not JSON"),
            ("\u{feff}{}".to_owned(), "byte order mark"),
            ("[]".to_owned(), "list"),
            ("{}".to_owned(), "`messages` is missing"),
            (
                "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}]}".to_owned(),
                "is in the shape of ShareGPT",
            ),
            ("{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\"}".to_owned(), "is in the shape of Alpaca"),
            ("{\"prompt\": \"a\", \"completion\": \"b\"}".to_owned(), "is in the shape of `prompt` and `completion`"),
            ("{\"messages\": []}".to_owned(), "has no messages"),
            (format!("{{\"messages\": [{turns}]}} {{}}"), "goes on behind the conversation"),
            (format!("{{\"message\": [{turns}]}}"), "messages"),
            (format!("{{\"messages\": [{turns}], \"tool\": []}}"), "did you mean `tools`?"),
            (format!("{{\"messages\": [{turns}], \"weight\": 1}}"), "has `weight`, which a message may have"),
            (format!("{{\"messages\": [{turns}], \"functions\": []}}"), "declare them as `tools`"),
            (call("lok", "\"{}\""), "calls the tool `lok`, which is not declared; did you mean `look`?"),
            (call("look", "\"{\""), "calls `look` with arguments that are no JSON object"),
            (call("look", "[1]"), "calls `look` with arguments that are no JSON object"),
            (call("look", "\"{}\"").replace("\"type\": \"function\"", "\"type\": \"f\""), "declares a tool 0"),
            (call("look", "\"{}\"").replace(tools, "\"tools\": []"), "and the row declares no `tools`"),
        ] {
            let refusal = refused(&row);
            assert!(refusal.contains(expected), "{row}: {refusal}");
        }
        let of = |message: &str| refused(&format!("{{\"messages\": [{turns}, {message}]}}"));
        for (message, expected) in [
            (r#"{"role": "usr", "content": "a"}"#, "message 2 has the role `usr`; did you mean `user`?"),
            (r#"{"role": "narrator", "content": "a"}"#, "message 2 has the role `narrator`"),
            (r#"{"role": "user"}"#, "message 2 has no content"),
            (r#"{"role": "assistant", "content": "a", "weight": -1}"#, "message 2 has the weight -1"),
            (r#"{"role": "assistant", "content": "a", "weight": "x"}"#, "must be a number of at least 0"),
            (r#"{"role": "assistant", "content": "a", "trainable": 1}"#, "must be true or false"),
            (r#"{"role": "assistant", "content": "a", "weigth": 0}"#, "did you mean `weight`?"),
            (r#"{"role": "tool", "content": "a"}"#, "no message before it calls one"),
            (r#"{"role": "assistant", "content": "a", "function_call": {}}"#, "write it as `tool_calls`"),
        ] {
            let refusal = of(message);
            assert!(refusal.contains(expected), "{message}: {refusal}");
        }
        assert!(Conversation::read(b"{\"messages\": \xff}").unwrap_err().contains("is not UTF-8: byte 14"));
    }

    #[test]
    fn an_answer_names_a_call_that_was_made() {
        let row = |id: &str| {
            format!(
                r#"{{"messages": [{{"role": "user", "content": "a"}}, {{"role": "assistant", "content": null, "tool_calls":
                [{{"id": "c", "function": {{"name": "look"}}}}]}}, {{"role": "tool", "content": "b", "tool_call_id": "{id}"}}],
                "tools": [{{"type": "function", "function": {{"name": "look"}}}}]}}"#
            )
        };
        Conversation::read(row("c").as_bytes()).unwrap();
        assert_eq!(refused(&row("d")), "message 2 answers the call `d`, which no message before it makes");
    }

    #[test]
    fn marks_are_taken_off_the_messages() {
        let row = r#"{"messages": [{"role": "user", "content": "a", "trainable": false},
                      {"role": "assistant", "content": "b", "weight": 0.5, "reasoning_content": "c"}]}"#;
        let conversation = Conversation::read(row.as_bytes()).unwrap();
        assert_eq!(conversation.marks[0], Marks { weight: None, trainable: Some(false) });
        assert_eq!(conversation.marks[1], Marks { weight: Some(0.5), trainable: None });
        let keys: Vec<&String> = conversation.messages[1].extra.keys().collect();
        assert_eq!(keys, ["reasoning_content"]);
    }
}
