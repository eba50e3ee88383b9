use std::borrow::Cow;

use minijinja::Value;

use crate::python::budget::{Budget, Exhausted};
use crate::python::python_repr::python_str_within;

/// A value's text as it stands in HTML: as it is where it is marked as safe, else escaped as markupsafe does it.
pub(crate) fn escaped<'v>(value: &'v Value, budget: &Budget<'_>) -> Result<Cow<'v, str>, Exhausted> {
    let text = python_str_within(value, budget)?;
    if value.is_safe() { Ok(text) } else { Ok(escape_text(&text, budget)?.into()) }
}

/// A text, escaped as markupsafe does it.
pub(crate) fn escape_text(text: &str, budget: &Budget<'_>) -> Result<String, Exhausted> {
    let length = |character: char| entity(character).map_or(character.len_utf8(), str::len);
    budget.look_through(text)?;
    budget.make(text.chars().map(length).sum())?;
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match entity(character) {
            Some(entity) => out.push_str(entity),
            None => out.push(character),
        }
    }
    Ok(out)
}

fn entity(character: char) -> Option<&'static str> {
    Some(match character {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '\'' => "&#39;",
        '"' => "&#34;",
        _ => return None,
    })
}
