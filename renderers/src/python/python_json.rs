use std::borrow::Cow;
use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use crate::python::budget::Budget;
use crate::python::python_objects::as_sequence;
use crate::python::python_text::{as_float, as_long_integer, as_object, float_repr, from_json};

/// The keyword arguments of Python's `json.dumps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonStyle {
    /// Escape every character outside ASCII.
    pub(crate) ensure_ascii: bool,
    /// Write maps in the order of their keys.
    pub(crate) sort_keys: bool,
    /// What a level is indented by; `None` writes one line.
    pub(crate) indent: Option<String>,
    /// Between items.
    pub(crate) item_separator: Cow<'static, str>,
    /// Between key and value.
    pub(crate) key_separator: Cow<'static, str>,
}

/// Python's defaults.
impl Default for JsonStyle {
    fn default() -> Self {
        Self {
            ensure_ascii: true,
            sort_keys: false,
            indent: None,
            item_separator: ", ".into(),
            key_separator: ": ".into(),
        }
    }
}

/// Python's `json.dumps` of a value that came as JSON.
pub(crate) fn dumps(value: &serde_json::Value, style: &JsonStyle) -> String {
    // What came as JSON can be written as JSON.
    to_json(&from_json(value), style).unwrap_or_else(|_| value.to_string())
}

/// Python's `json.dumps` of a value that came as JSON, as templates see it.
pub(crate) fn to_json(value: &Value, style: &JsonStyle) -> Result<String, Error> {
    to_json_within(value, style, &Budget::unlimited())
}

/// Python's `json.dumps` of a template's value.
pub(crate) fn to_json_within(value: &Value, style: &JsonStyle, budget: &Budget<'_>) -> Result<String, Error> {
    let mut out = String::new();
    write_value(&mut out, value, &Writing { style, budget }, 0)?;
    budget.make(out.len())?;
    Ok(out)
}

/// How values are written.
struct Writing<'w> {
    style: &'w JsonStyle,
    budget: &'w Budget<'w>,
}

impl std::ops::Deref for Writing<'_> {
    type Target = JsonStyle;

    fn deref(&self) -> &JsonStyle {
        self.style
    }
}

fn write_value(out: &mut String, value: &Value, style: &Writing<'_>, depth: usize) -> Result<(), Error> {
    style.budget.step(1)?;
    if let Some(text) = value.as_str() {
        write_string(out, text, style);
        return Ok(());
    }
    if let Some(scalar) = scalar_text(value) {
        out.push_str(&scalar);
        return Ok(());
    }
    match value.kind() {
        ValueKind::Seq => {
            let items = as_sequence(value).unwrap_or_default();
            write_items(out, ['[', ']'], &items, style, depth, |out, item| write_value(out, item, style, depth + 1))?;
        }
        ValueKind::Map => {
            if let Some(object) = as_object(value).filter(|_| !style.sort_keys) {
                return write_items(out, ['{', '}'], object.fields(), style, depth, |out, (name, item)| {
                    write_string(out, name.as_str(), style);
                    out.push_str(&style.key_separator);
                    write_value(out, item, style, depth + 1)
                });
            }
            let mut entries = Vec::new();
            for key in value.try_iter()? {
                entries.push((key_text(&key)?, value.get_item(&key)?));
            }
            if style.sort_keys {
                entries.sort_by(|left, right| left.0.cmp(&right.0));
            }
            write_items(out, ['{', '}'], &entries, style, depth, |out, (key, item)| {
                write_string(out, key, style);
                out.push_str(&style.key_separator);
                write_value(out, item, style, depth + 1)
            })?;
        }
        kind => return Err(not_serializable(kind)),
    }
    Ok(())
}

fn write_items<T>(
    out: &mut String,
    brackets: [char; 2],
    items: &[T],
    style: &Writing<'_>,
    depth: usize,
    mut write: impl FnMut(&mut String, &T) -> Result<(), Error>,
) -> Result<(), Error> {
    out.push(brackets[0]);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(&style.item_separator);
        }
        break_line(out, style, depth + 1)?;
        write(out, item)?;
    }
    if !items.is_empty() {
        break_line(out, style, depth)?;
    }
    out.push(brackets[1]);
    Ok(())
}

fn break_line(out: &mut String, style: &Writing<'_>, depth: usize) -> Result<(), Error> {
    if let Some(indent) = &style.indent {
        style.budget.make(indent.len().saturating_mul(depth))?;
        out.push('\n');
        out.push_str(&indent.repeat(depth));
    }
    Ok(())
}

/// Numbers, booleans and none, which look the same as values and as keys.
fn scalar_text(value: &Value) -> Option<String> {
    if let Some(float) = as_float(value) {
        return Some(match float {
            _ if float.is_nan() => "NaN".to_owned(),
            _ if float.is_infinite() => if float > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
            _ => float_repr(float),
        });
    }
    if let Some(digits) = as_long_integer(value) {
        return Some(digits.to_owned());
    }
    match value.kind() {
        ValueKind::None => Some("null".to_owned()),
        ValueKind::Bool => Some(if value.is_true() { "true" } else { "false" }.to_owned()),
        ValueKind::Number => Some(value.to_string()),
        _ => None,
    }
}

fn key_text(key: &Value) -> Result<String, Error> {
    match key.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => scalar_text(key).ok_or_else(|| not_serializable(key.kind())),
    }
}

fn not_serializable(kind: ValueKind) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{kind} cannot be written as JSON"))
}

fn write_string(out: &mut String, text: &str, style: &JsonStyle) {
    let is_escaped = |byte: u8| matches!(byte, b'"' | b'\\' | 0..=0x1f) || (style.ensure_ascii && byte > b'~');
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(is_escaped) {
        out.push_str(&rest[..at]);
        let mut characters = rest[at..].chars();
        let Some(character) = characters.next() else { break };
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            _ => push_unicode_escape(out, character),
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

fn push_unicode_escape(out: &mut String, character: char) {
    let mut units = [0; 2];
    for unit in character.encode_utf16(&mut units) {
        // Writing into a string cannot fail.
        let _ = write!(out, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_written_as_python_writes_it() {
        let value = json!({"b": [1, 2.0, -0.5e30, true, null], "a": {"é": "\u{1f642}\n"}});
        let text = r#"{"b": [1, 2.0, -5e+29, true, null], "a": {"\u00e9": "\ud83d\ude42\n"}}"#;
        assert_eq!(dumps(&value, &JsonStyle::default()), text);
        let compact = JsonStyle {
            ensure_ascii: false,
            sort_keys: true,
            item_separator: ",".into(),
            key_separator: ":".into(),
            ..JsonStyle::default()
        };
        assert_eq!(dumps(&value, &compact), "{\"a\":{\"é\":\"\u{1f642}\\n\"},\"b\":[1,2.0,-5e+29,true,null]}");
    }
}
