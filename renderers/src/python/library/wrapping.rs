//! Filters that cut texts to a width.

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, flag, given, text, whole};
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{as_dict, as_sequence};
use crate::python::python_ops::{self, compare};
use crate::python::python_repr::python_repr_within;
use crate::python::python_strings::splitlines;
use crate::python::python_values::type_name;

/// Applies a filter of this file.
pub(super) fn apply(
    name: &str,
    value: &Value,
    arguments: &CallArguments,
    budget: &Budget<'_>,
) -> Result<Value, PythonError> {
    match name {
        "truncate" => truncate(value, arguments, budget),
        "wordwrap" => wordwrap(value, arguments, budget),
        _ => {
            let [_] = arguments.bind(name, ["value"], 0)?;
            let mut out = String::new();
            pretty(&mut out, value, 0, 0, budget)?;
            Ok(out.into())
        }
    }
}

fn truncate(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Result<Value, PythonError> {
    let parameters = ["s", "length", "killwords", "end", "leeway"];
    let [_, length, killwords, end, leeway] = arguments.bind("truncate", parameters, 0)?;
    let length = length.map_or(Ok(255), whole)?;
    let end = end.map_or(Ok("..."), text)?;
    let leeway = given(leeway).map_or(Ok(5), whole)?;
    let end_length = end.chars().count() as i128;
    if length < end_length {
        return raise(format!("expected length >= {end_length}, got {length}"));
    }
    if leeway < 0 {
        return raise(format!("expected leeway >= 0, got {leeway}"));
    }
    let Some(whole_length) = python_ops::length(value) else {
        return raise(format!("object of type '{}' has no len()", type_name(value)));
    };
    if whole_length as i128 <= length.saturating_add(leeway) {
        return Ok(if value.is_undefined() { "".into() } else { value.clone() });
    }
    let Some(whole_text) = value.as_str() else {
        return raise(format!("'{}' object cannot be truncated", type_name(value)));
    };
    budget.look_through(whole_text)?;
    budget.make(whole_text.len().saturating_add(end.len()))?;
    let kept = usize::try_from(length - end_length).unwrap_or(0);
    let kept: String = whole_text.chars().take(kept).collect();
    let kept = match flag(killwords, false) {
        true => &*kept,
        false => kept.rsplit_once(' ').map_or(&*kept, |(before, _)| before),
    };
    Ok(format!("{kept}{end}").into())
}

fn wordwrap(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Result<Value, PythonError> {
    let parameters = ["s", "width", "break_long_words", "wrapstring", "break_on_hyphens"];
    let [_, width, breaks_words, wrap, breaks_hyphens] = arguments.bind("wordwrap", parameters, 0)?;
    let width = width.map_or(Ok(79), whole)?;
    if width <= 0 {
        return raise(format!("invalid width {width} (must be > 0)"));
    }
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    let wrap = given(wrap).map_or(Ok("\n"), text)?;
    let Some(whole_text) = value.as_str() else {
        return raise(format!("'{}' object has no attribute 'splitlines'", type_name(value)));
    };
    budget.look_through(whole_text)?;
    budget.make(whole_text.len().saturating_mul(wrap.len().saturating_add(1)))?;
    budget.make_items(whole_text.len())?;
    let options =
        Wrapping { width, breaks_words: flag(breaks_words, true), breaks_hyphens: flag(breaks_hyphens, true) };
    let lines: Vec<String> =
        splitlines(whole_text, false).into_iter().map(|line| options.line(line).join(wrap)).collect();
    Ok(lines.join(wrap).into())
}

struct Wrapping {
    width: usize,
    breaks_words: bool,
    breaks_hyphens: bool,
}

impl Wrapping {
    /// The lines of a paragraph, as Python's `textwrap` cuts them.
    fn line(&self, paragraph: &str) -> Vec<String> {
        let mut chunks: std::collections::VecDeque<String> = self.chunks(paragraph).into();
        let mut lines = Vec::new();
        while !chunks.is_empty() {
            let is_blank = |chunk: &String| chunk.trim().is_empty();
            if !lines.is_empty() && chunks.front().is_some_and(is_blank) {
                chunks.pop_front();
            }
            let (mut line, mut used): (Vec<String>, usize) = (Vec::new(), 0);
            while let Some(chunk) = chunks.front() {
                let length = chunk.chars().count();
                if used + length > self.width {
                    break;
                }
                used += length;
                line.extend(chunks.pop_front());
            }
            if let Some(chunk) = chunks.front_mut()
                && chunk.chars().count() > self.width
            {
                let room = self.width - used;
                if self.breaks_words {
                    let end = self.cut(chunk, room.max(1));
                    line.push(chunk.drain(..end).collect());
                } else if used == 0 {
                    line.extend(chunks.pop_front());
                }
            }
            if line.last().is_some_and(is_blank) {
                line.pop();
            }
            if !line.is_empty() {
                lines.push(line.concat());
            }
        }
        lines
    }

    /// Where in bytes a chunk is cut that is longer than its line: behind a hyphen where one stands in time.
    fn cut(&self, chunk: &str, room: usize) -> usize {
        let end = chunk.char_indices().nth(room).map_or(chunk.len(), |(at, _)| at);
        if self.breaks_hyphens && chunk.chars().count() > room {
            let hyphen = chunk[..end].rfind('-').filter(|at| *at > 0);
            if let Some(at) = hyphen.filter(|at| chunk[..*at].chars().any(|character| character != '-')) {
                return at + 1;
            }
        }
        end
    }

    /// Words, and the white space between them; hyphens between letters end a chunk.
    fn chunks(&self, text: &str) -> Vec<String> {
        let is_gap = |character: char| "\t\n\u{b}\u{c}\r ".contains(character);
        let text: String = text
            .chars()
            .map(|character| if character == '\u{b}' || character == '\u{c}' { ' ' } else { character })
            .collect();
        let mut chunks: Vec<String> = Vec::new();
        let characters: Vec<char> = text.chars().collect();
        let mut current = String::new();
        for (place, character) in characters.iter().copied().enumerate() {
            let changes = current.chars().next_back().is_some_and(|last| is_gap(last) != is_gap(character));
            if changes {
                chunks.push(std::mem::take(&mut current));
            }
            current.push(character);
            let at = |place: Option<usize>| place.and_then(|place| characters.get(place)).copied().unwrap_or(' ');
            let is_letter = |character: char| character.is_alphabetic() || character == '_';
            let is_inner = is_letter(at(place.checked_sub(1))) && is_letter(at(Some(place + 1)));
            let two_before = at(place.checked_sub(2));
            let two_after = at(Some(place + 2));
            let is_wide = (is_letter(two_before) || two_before == '-') && (is_letter(two_after) || two_after == '-');
            if self.breaks_hyphens && character == '-' && is_inner && is_wide {
                chunks.push(std::mem::take(&mut current));
            }
        }
        if !current.is_empty() {
            chunks.push(current);
        }
        chunks
    }
}

/// Python's `pprint` writes this many characters in a line.
const PRETTY_WIDTH: usize = 80;

fn pretty(
    out: &mut String,
    value: &Value,
    indent: usize,
    after: usize,
    budget: &Budget<'_>,
) -> Result<(), PythonError> {
    budget.step(1)?;
    let sorted = sorted_repr(value, budget)?;
    if sorted.chars().count() + indent + after <= PRETTY_WIDTH {
        budget.make(sorted.len())?;
        out.push_str(&sorted);
        return Ok(());
    }
    budget.make(indent)?;
    let gap = format!(",\n{}", " ".repeat(indent + 1));
    if let Some(entries) = sorted_entries(value, budget)? {
        out.push('{');
        for (place, (key, item)) in entries.iter().enumerate() {
            out.push_str(if place > 0 { &gap } else { "" });
            let key = python_repr_within(key, budget)?;
            let inner = indent + 1 + key.chars().count() + 2;
            budget.make(key.len().saturating_add(inner))?;
            out.push_str(&format!("{key}: "));
            pretty(out, item, inner, 1, budget)?;
        }
        out.push('}');
        return Ok(());
    }
    match as_sequence(value) {
        Some(items) => {
            let [open, close] = if value.is_tuple() { ['(', ')'] } else { ['[', ']'] };
            out.push(open);
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place > 0 { &gap } else { "" });
                pretty(out, item, indent + 1, 1, budget)?;
            }
            out.push(close);
        }
        None => out.push_str(&sorted),
    }
    Ok(())
}

fn sorted_entries(value: &Value, budget: &Budget<'_>) -> Result<Option<Vec<(Value, Value)>>, PythonError> {
    let Some(mut entries) = as_dict(value) else { return Ok(None) };
    budget.make_items(entries.len().saturating_mul(2))?;
    entries.sort_by(|(left, _), (right, _)| {
        compare(left, right, budget).ok().flatten().unwrap_or(std::cmp::Ordering::Equal)
    });
    Ok(Some(entries))
}

/// `repr` with the keys of every dict in their order.
fn sorted_repr(value: &Value, budget: &Budget<'_>) -> Result<String, PythonError> {
    if let Some(entries) = sorted_entries(value, budget)? {
        let mut parts = Vec::new();
        for (key, item) in &entries {
            parts.push(format!("{}: {}", python_repr_within(key, budget)?, sorted_repr(item, budget)?));
        }
        let text = format!("{{{}}}", parts.join(", "));
        budget.make(text.len())?;
        return Ok(text);
    }
    match as_sequence(value) {
        Some(items) => {
            let mut parts = Vec::new();
            for item in &*items {
                parts.push(sorted_repr(item, budget)?);
            }
            let inner = parts.join(", ");
            budget.make(inner.len())?;
            Ok(match (value.is_tuple(), parts.len()) {
                (false, _) => format!("[{inner}]"),
                (true, 1) => format!("({inner},)"),
                (true, _) => format!("({inner})"),
            })
        }
        None => Ok(python_repr_within(value, budget)?),
    }
}
