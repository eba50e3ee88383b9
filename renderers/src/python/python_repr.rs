use std::borrow::Cow;
use std::fmt::Write;
use std::ops::RangeInclusive;

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::python::budget::{Budget, Exhausted};
use crate::python::python_objects::{
    BoundMethod, Cycler, Generator, GlobalFunction, Joiner, LoopValue, MacroValue, Namespace, Range, View, as_dict,
    as_sequence,
};
use crate::python::python_text::{as_float, as_long_integer, float_repr};

/// Private-use characters that may stand in for others while a template is rendered. A text's `repr` has them as they are,
/// so that they can be turned back in it; Python would escape them, which no text but one of a stranger's making holds.
pub(crate) const STAND_INS: RangeInclusive<char> = '\u{10f800}'..='\u{10fffd}';

/// Python's `str()`.
pub(crate) fn python_str(value: &Value) -> Cow<'_, str> {
    // Without a budget there is none to use up.
    python_str_within(value, &Budget::unlimited()).unwrap_or_default()
}

/// Python's `repr()`.
pub(crate) fn python_repr(value: &Value) -> String {
    let mut out = String::new();
    // Without a budget there is none to use up.
    let _ = write_repr(&mut out, value, &Budget::unlimited());
    out
}

/// Python's `str()`, within a budget.
pub(crate) fn python_str_within<'v>(value: &'v Value, budget: &Budget<'_>) -> Result<Cow<'v, str>, Exhausted> {
    match value.as_str() {
        Some(text) => Ok(text.into()),
        None if value.is_undefined() => Ok("".into()),
        None => python_repr_within(value, budget).map(Cow::Owned),
    }
}

/// Python's `repr()`, within a budget.
pub(crate) fn python_repr_within(value: &Value, budget: &Budget<'_>) -> Result<String, Exhausted> {
    let mut out = String::new();
    write_repr(&mut out, value, budget)?;
    Ok(out)
}

fn write_repr(out: &mut String, value: &Value, budget: &Budget<'_>) -> Result<(), Exhausted> {
    let before = out.len();
    if let Some(float) = as_float(value) {
        out.push_str(&float_repr(float));
    } else if let Some(digits) = as_long_integer(value) {
        out.push_str(digits);
    } else if let Some(text) = value.as_str() {
        budget.make(text.len())?;
        let is_safe = value.is_safe();
        out.push_str(if is_safe { "Markup(" } else { "" });
        out.push_str(&string_repr(text));
        out.push_str(if is_safe { ")" } else { "" });
        return Ok(());
    } else if let Some(items) = as_sequence(value) {
        budget.step(1)?;
        let [open, close] = if value.is_tuple() { ["(", ")"] } else { ["[", "]"] };
        out.push_str(open);
        write_list(out, &items, budget)?;
        out.push_str(if value.is_tuple() && items.len() == 1 { "," } else { "" });
        out.push_str(close);
    } else if let Some(entries) = as_dict(value) {
        budget.step(1)?;
        out.push('{');
        write_entries(out, entries.iter().map(|(key, item)| (python_repr_within(key, budget), item)), budget)?;
        out.push('}');
    } else if let Some(View { name, items }) = value.downcast_object_ref() {
        out.push_str(name);
        out.push_str("([");
        write_list(out, items, budget)?;
        out.push_str("])");
    } else if let Some(Range { bounds: [start, stop, step], .. }) = value.downcast_object_ref() {
        let step = if *step == 1 { String::new() } else { format!(", {step}") };
        // Writing into a string cannot fail.
        let _ = write!(out, "range({start}, {stop}{step})");
    } else if let Some(class) = value.downcast_object_ref().and_then(class_of) {
        let _ = write!(out, "<class '{class}'>");
    } else if has_address(value) {
        return Err(Exhausted::Address);
    } else if let Some(namespace) = value.downcast_object_ref::<Namespace>() {
        let fields = namespace.fields();
        out.push_str("<Namespace {");
        write_entries(out, fields.iter().map(|(name, item)| (Ok(string_repr(name)), item)), budget)?;
        out.push_str("}>");
    } else {
        match value.kind() {
            ValueKind::Undefined => out.push_str("Undefined"),
            ValueKind::None => out.push_str("None"),
            ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
            _ => out.push_str(&value.to_string()),
        }
    }
    budget.make(out.len() - before)
}

fn write_entries<'v>(
    out: &mut String,
    entries: impl Iterator<Item = (Result<String, Exhausted>, &'v Value)>,
    budget: &Budget<'_>,
) -> Result<(), Exhausted> {
    for (place, (key, item)) in entries.enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        out.push_str(&key?);
        out.push_str(": ");
        write_repr(out, item, budget)?;
    }
    Ok(())
}

/// The class that a function of every template is in Python.
fn class_of(function: &GlobalFunction) -> Option<&'static str> {
    Some(match function.0 {
        "range" => "range",
        "dict" => "dict",
        "namespace" => "jinja2.utils.Namespace",
        "cycler" => "jinja2.utils.Cycler",
        "joiner" => "jinja2.utils.Joiner",
        _ => return None,
    })
}

/// Whether Python writes a value by its address.
fn has_address(value: &Value) -> bool {
    fn is<T: 'static>(value: &Value) -> bool {
        value.downcast_object_ref::<T>().is_some()
    }
    let objects = [is::<Generator>, is::<BoundMethod>, is::<GlobalFunction>, is::<Cycler>, is::<Joiner>];
    let of_jinja = [is::<MacroValue>, is::<LoopValue>];
    objects.iter().chain(&of_jinja).any(|is| is(value))
}

fn write_list(out: &mut String, items: &[Value], budget: &Budget<'_>) -> Result<(), Exhausted> {
    for (place, item) in items.iter().enumerate() {
        out.push_str(if place > 0 { ", " } else { "" });
        write_repr(out, item, budget)?;
    }
    Ok(())
}

/// Python's `repr` of a string.
pub(crate) fn string_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => {
                out.push('\\');
                out.push(quote);
            }
            _ if is_printable(character) || STAND_INS.contains(&character) => out.push(character),
            _ => push_escape(&mut out, character),
        }
    }
    out.push(quote);
    out
}

pub(crate) fn push_escape(out: &mut String, character: char) {
    let code = u32::from(character);
    // Writing into a string cannot fail.
    let _ = match code {
        0..=0xff => write!(out, "\\x{code:02x}"),
        0x100..=0xffff => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

/// Python's `str.isprintable` of one character: neither a separator (but the space) nor of category Other. Rust escapes
/// the same categories, and a combining mark where it begins a string.
pub(crate) fn is_printable(character: char) -> bool {
    match character {
        ' '..='~' => true,
        _ => !format!("a{character}").escape_debug().any(|written| written == '\\'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted_as_python_quotes_them() {
        assert_eq!(string_repr("it's"), "\"it's\"");
        assert_eq!(string_repr("'\"\\\u{ad}\u{2028}e\u{301}🙂"), "'\\'\"\\\\\\xad\\u2028e\u{301}🙂'");
    }
}
