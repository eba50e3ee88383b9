//! Texts as the numbers that Python reads in them.

use std::borrow::Cow;

use minijinja::Value;

use crate::python::python_strings::strip;
use crate::python::python_text::as_long_integer;
use crate::python::python_values::{Number, number};

/// Python's `float()`; `None` where it fails.
pub(super) fn python_float(value: &Value) -> Option<f64> {
    if let Some(text) = value.as_str() {
        let text = strip(text, None, [true, true]);
        let digits = text.trim_start_matches(['+', '-']);
        let is_word = ["inf", "infinity", "nan"].contains(&digits.to_lowercase().as_str());
        let is_number = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.');
        return (is_word || is_number).then(|| without_underscores(text)?.parse().ok()).flatten();
    }
    if let Some(digits) = as_long_integer(value) {
        return digits.parse().ok();
    }
    number(value).map(Number::float)
}

/// Digits without the underscores that Python allows between them.
pub(super) fn without_underscores(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(text.into());
    }
    let characters: Vec<char> = text.chars().collect();
    let is_between = |place: usize| {
        let digit = |place: usize| characters.get(place).is_some_and(char::is_ascii_alphanumeric);
        place > 0 && digit(place - 1) && digit(place + 1)
    };
    let fits = characters.iter().enumerate().all(|(place, character)| *character != '_' || is_between(place));
    fits.then(|| text.replace('_', "").into())
}
