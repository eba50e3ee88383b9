//! Filters of texts.

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, flag, size, whole};
use crate::python::library::numbers::python_float;
use crate::python::library::string_methods::{pad, replace};
use crate::python::python_error::{PythonError, raise};
use crate::python::python_format::percent;
use crate::python::python_markup::escape_text;
use crate::python::python_objects::tuple;
use crate::python::python_ops::multiply;
use crate::python::python_repr::python_str_within;
use crate::python::python_strings::{capitalize, is_space, splitlines};

/// Applies a filter of this file.
pub(super) fn apply(
    name: &str,
    value: &Value,
    arguments: &CallArguments,
    budget: &Budget<'_>,
) -> Result<Value, PythonError> {
    let text = python_str_within(value, budget)?;
    budget.look_through(&text)?;
    budget.make(text.len())?;
    let alone = || arguments.bind(name, ["s"], 0).map(|_| ());
    let made = match name {
        "lower" => alone().map(|()| text.to_lowercase())?,
        "upper" => alone().map(|()| text.to_uppercase())?,
        "capitalize" => alone().map(|()| capitalize(&text))?,
        "title" => alone().map(|()| title(&text))?,
        "wordcount" => {
            alone()?;
            return Ok(word_count(&text).into());
        }
        "center" => {
            let [_, width] = arguments.bind(name, ["value", "width"], 0)?;
            pad(&text, width.map_or(Ok(80), size)?, ' ', "center", budget)?
        }
        "format" => {
            let rest = arguments.positional.get(1..).unwrap_or_default();
            let values = match (rest, &*arguments.named) {
                ([_, ..], [_, ..]) => return raise("can't handle positional and keyword arguments at the same time"),
                (_, []) => tuple(rest.to_vec()),
                (_, named) => Value::from_pairs(named.iter().map(|(name, value)| (&**name, value.clone()))),
            };
            percent(&text, &values, budget)?
        }
        "replace" => {
            let [_, old, new, count] = arguments.bind(name, ["s", "old", "new", "count"], 3)?;
            let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
            let count = count.filter(|count| !count.is_none()).map(whole).transpose()?;
            let (old_text, new_text) = (python_str_within(&old, budget)?, python_str_within(&new, budget)?);
            return Ok(replace(&text, &old_text, &new_text, count, budget)?.into());
        }
        "indent" if value.as_str().is_none() => return raise("indent needs a text"),
        "indent" => indent(&text, value, arguments, budget)?,
        _ => filesizeformat(value, arguments)?,
    };
    budget.make(made.len())?;
    let keeps_mark = value.is_safe() && !matches!(name, "lower" | "upper" | "title" | "capitalize");
    Ok(if keeps_mark || (value.is_safe() && name != "title") { Value::from_safe_string(made) } else { made.into() })
}

/// Begins every word with a capital; words end at white space, hyphens and opening brackets.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for character in text.chars() {
        if begins {
            out.extend(character.to_uppercase());
        } else {
            out.extend(character.to_lowercase());
        }
        begins = is_space(character) || matches!(character, '-' | '(' | '{' | '[' | '<');
    }
    out
}

/// Runs of letters, digits and underscores.
fn word_count(text: &str) -> usize {
    let mut inside = false;
    let mut count = 0;
    for character in text.chars() {
        let is_word = character.is_alphanumeric() || character == '_';
        count += usize::from(is_word && !inside);
        inside = is_word;
    }
    count
}

/// Indents every line but the first by `width` spaces, or by `width` itself where it is text; empty lines only with
/// `blank`, the first only with `first`.
fn indent(text: &str, value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Result<String, PythonError> {
    let [_, width, first, blank] = arguments.bind("indent", ["s", "width", "first", "blank"], 0)?;
    let margin = match width {
        None => "    ".to_owned(),
        Some(width) => match width.as_str() {
            Some(text) if value.is_safe() && !width.is_safe() => escape_text(text, budget)?,
            Some(text) => text.to_owned(),
            None => multiply(&" ".into(), width, budget)?.as_str().unwrap_or_default().to_owned(),
        },
    };
    let text = text.to_owned() + "\n";
    let lines = splitlines(&text, false);
    budget.make(text.len().saturating_add(lines.len().saturating_mul(margin.len())))?;
    let mut out = String::with_capacity(text.len());
    for (index, line) in lines.into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let indented = if index == 0 { flag(first, false) } else { flag(blank, false) || !line.is_empty() };
        out.push_str(if indented { &margin } else { "" });
        out.push_str(line);
    }
    Ok(out)
}

fn filesizeformat(value: &Value, arguments: &CallArguments) -> Result<String, PythonError> {
    let [_, binary] = arguments.bind("filesizeformat", ["value", "binary"], 0)?;
    let binary = flag(binary, false);
    let Some(bytes) = python_float(value) else { return raise("filesizeformat needs a number") };
    let base = if binary { 1024.0 } else { 1000.0 };
    let units = match binary {
        true => ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"],
        false => ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"],
    };
    if bytes == 1.0 {
        return Ok("1 Byte".to_owned());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", bytes.trunc() as i64));
    }
    let mut unit = base;
    let mut shown = units[0];
    for name in units {
        unit *= base;
        shown = name;
        if bytes < unit {
            break;
        }
    }
    Ok(format!("{:.1} {shown}", base * bytes / unit))
}
