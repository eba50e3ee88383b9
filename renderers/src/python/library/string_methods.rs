//! The methods of Python's `str`.

use std::sync::LazyLock;

use minijinja::Value;
use regex::Regex;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, flag, given, size, text, whole};
use crate::python::python_attributes::{attribute, item};
use crate::python::python_error::{PythonError, raise};
use crate::python::python_format;
use crate::python::python_objects::{as_dict, as_sequence, tuple};
use crate::python::python_ops::{equal, items, places};
use crate::python::python_repr::{is_printable, python_str_within};
use crate::python::python_strings::{capitalize, is_space, splitlines, strip, title};
use crate::python::python_values::{from_integer, integer, type_name};

type Outcome<T> = Result<T, PythonError>;

/// Calls a method of a text.
pub(crate) fn call(of: &str, method: &str, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    if !matches!(method, "startswith" | "endswith") {
        budget.look_through(of)?;
    }
    let only_looks = method.starts_with("is")
        || ["startswith", "endswith", "find", "rfind", "index", "rindex", "count"].contains(&method);
    if !only_looks {
        budget.make(of.len())?;
    }
    if let Some(holds) = test(of, method) {
        arguments.bind::<0>(method, [], 0)?;
        return Ok(holds.into());
    }
    if let Some(text) = cased(of, method) {
        arguments.bind::<0>(method, [], 0)?;
        return Ok(text.into());
    }
    match method {
        "strip" | "lstrip" | "rstrip" => {
            let [characters] = arguments.bind(method, ["chars"], 0)?;
            let characters = given(characters).map(text).transpose()?;
            Ok(strip(of, characters, [method != "rstrip", method != "lstrip"]).into())
        }
        "split" | "rsplit" => split(of, method, arguments, budget),
        "splitlines" => {
            let [keep_ends] = arguments.bind(method, ["keepends"], 0)?;
            let lines = splitlines(of, flag(keep_ends, false));
            budget.make_items(lines.len())?;
            Ok(lines.into_iter().map(Value::from).collect())
        }
        "partition" | "rpartition" => partition(of, method, arguments),
        "removeprefix" | "removesuffix" => {
            let [affix] = arguments.bind(method, [method], 1)?;
            let affix = text(affix.unwrap_or(&Value::UNDEFINED))?;
            let rest = if method == "removeprefix" { of.strip_prefix(affix) } else { of.strip_suffix(affix) };
            Ok(rest.unwrap_or(of).into())
        }
        "ljust" | "rjust" | "center" => padded(of, method, arguments, budget),
        "zfill" => {
            let [width] = arguments.bind(method, ["width"], 1)?;
            zfill(of, width.map_or(Ok(0), size)?, budget)
        }
        "expandtabs" => {
            let [tab] = arguments.bind(method, ["tabsize"], 0)?;
            expandtabs(of, tab.map_or(Ok(8), size)?, budget)
        }
        "find" | "rfind" | "index" | "rindex" | "count" => find(of, method, arguments),
        "startswith" | "endswith" => affix(of, method, arguments, budget),
        "replace" => {
            let [old, new, count] = arguments.bind(method, ["old", "new", "count"], 2)?;
            let (old, new) = (text(old.unwrap_or(&Value::UNDEFINED))?, text(new.unwrap_or(&Value::UNDEFINED))?);
            Ok(replace(of, old, new, count.map(whole).transpose()?, budget)?.into())
        }
        "join" => {
            let [parts] = arguments.bind(method, ["iterable"], 1)?;
            join(of, &items(parts.unwrap_or(&Value::UNDEFINED), budget)?, budget)
        }
        "format" => format(of, &arguments.positional, &arguments.named, budget),
        "format_map" => format_map(of, arguments, budget),
        "translate" => {
            let [table] = arguments.bind(method, ["table"], 1)?;
            translate(of, table.unwrap_or(&Value::UNDEFINED), budget)
        }
        other => raise(format!("'str' object has no method `{other}` here")),
    }
}

/// Whether what a method tests holds, which takes no arguments.
fn test(of: &str, method: &str) -> Option<bool> {
    Some(match method {
        "isspace" => !of.is_empty() && of.chars().all(is_space),
        "isascii" => of.is_ascii(),
        "isprintable" => of.chars().all(is_printable),
        "islower" => has_cased(of, |character| character.is_lowercase()),
        "isupper" => has_cased(of, |character| character.is_uppercase()),
        "istitle" => is_title(of),
        "isalpha" => is_all(&ALPHABETIC, of),
        "isdecimal" => is_all(&DECIMAL, of),
        "isdigit" => is_all(&DIGIT, of),
        "isnumeric" => is_all(&NUMERIC, of),
        "isalnum" => is_all(&ALPHANUMERIC, of),
        "isidentifier" => is_all(&IDENTIFIER, of),
        _ => return None,
    })
}

/// The text in the case that a method makes, which takes no arguments.
fn cased(of: &str, method: &str) -> Option<String> {
    Some(match method {
        "lower" => of.to_lowercase(),
        "casefold" => casefold(of),
        "upper" => of.to_uppercase(),
        "title" => title(of),
        "capitalize" => capitalize(of),
        "swapcase" => swapcase(of),
        _ => return None,
    })
}

fn format_map(of: &str, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [mapping] = arguments.bind("format_map", ["mapping"], 1)?;
    let Some(fields) = mapping.and_then(as_dict) else { return raise("format_map() needs a mapping") };
    let named: Vec<(Box<str>, Value)> =
        fields.into_iter().filter_map(|(key, value)| Some((key.as_str()?.into(), value))).collect();
    format(of, &[], &named, budget)
}

fn partition(of: &str, method: &str, arguments: &CallArguments) -> Outcome<Value> {
    let [separator] = arguments.bind(method, ["sep"], 1)?;
    let separator = text(separator.unwrap_or(&Value::UNDEFINED))?;
    if separator.is_empty() {
        return raise("empty separator");
    }
    let parts = match method {
        "partition" => of.split_once(separator).map_or([of, "", ""], |(a, b)| [a, separator, b]),
        _ => of.rsplit_once(separator).map_or(["", "", of], |(a, b)| [a, separator, b]),
    };
    Ok(tuple(parts.into_iter().map(Value::from).collect()))
}

/// A pattern of this file, which is known to be one.
fn pattern(written: &str) -> Option<Regex> {
    Regex::new(written).ok()
}

static ALPHABETIC: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\p{L}+$"));
static DECIMAL: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^\p{Nd}+$"));
static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^[\p{Nd}\x{b2}\x{b3}\x{b9}\x{1369}-\x{1371}\x{19da}\x{2070}\x{2074}-\x{2079}\x{2080}-\x{2089}\x{2460}-\x{2468}\x{2474}-\x{247c}\x{2488}-\x{2490}\x{24ea}\x{24f5}-\x{24fd}\x{24ff}\x{2776}-\x{277e}\x{2780}-\x{2788}\x{278a}-\x{2792}]+$",
    )
});
static NUMERIC: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"^[\p{N}\x{3007}\x{4e00}\x{4e8c}\x{4e09}\x{56db}\x{4e94}\x{516d}\x{4e03}\x{516b}\x{4e5d}\x{5341}\x{767e}\x{5343}\x{842c}\x{4e07}\x{5104}\x{4ebf}]+$",
    )
});
static ALPHANUMERIC: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^[\p{L}\p{N}]+$"));
static IDENTIFIER: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r"^[\p{XID_Start}_]\p{XID_Continue}*$"));

fn is_all(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    // `$` of the pattern also stands before a last line break.
    !text.ends_with('\n') && pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

fn split(of: &str, method: &str, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [separator, limit] = arguments.bind(method, ["sep", "maxsplit"], 0)?;
    let limit = usize::try_from(limit.map_or(Ok(-1), whole)?).ok();
    let mut parts: Vec<&str> = match (given(separator).map(text).transpose()?, method) {
        (Some(""), _) => return raise("empty separator"),
        (Some(separator), "split") => match limit {
            None => of.split(separator).collect(),
            Some(limit) => of.splitn(limit.saturating_add(1), separator).collect(),
        },
        (Some(separator), _) => match limit {
            None => of.rsplit(separator).collect(),
            Some(limit) => of.rsplitn(limit.saturating_add(1), separator).collect(),
        },
        (None, "split") => words(of, limit),
        (None, _) => words_from_end(of, limit),
    };
    if method == "rsplit" {
        parts.reverse();
    }
    budget.make_items(parts.len())?;
    Ok(parts.into_iter().map(Value::from).collect())
}

fn words(of: &str, limit: Option<usize>) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = of.trim_start_matches(is_space);
    while !rest.is_empty() {
        if limit.is_some_and(|limit| parts.len() == limit) {
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

/// The last word first.
fn words_from_end(of: &str, limit: Option<usize>) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = of.trim_end_matches(is_space);
    while !rest.is_empty() {
        if limit.is_some_and(|limit| parts.len() == limit) {
            parts.push(rest);
            break;
        }
        let word = rest.rsplit(is_space).next().unwrap_or(rest);
        parts.push(word);
        rest = rest[..rest.len() - word.len()].trim_end_matches(is_space);
    }
    parts
}

fn padded(of: &str, method: &str, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [width, fill] = arguments.bind(method, ["width", "fillchar"], 1)?;
    let fill = fill.map_or(Ok(" "), text)?;
    let mut characters = fill.chars();
    let (Some(fill), None) = (characters.next(), characters.next()) else {
        return raise("The fill character must be exactly one character long");
    };
    let width = width.map_or(Ok(0), size)?;
    Ok(pad(of, width, fill, method, budget)?.into())
}

/// A text of at least `width` characters, as `method` pads it: `ljust`, `rjust` or `center`.
pub(crate) fn pad(of: &str, width: usize, fill: char, method: &str, budget: &Budget<'_>) -> Outcome<String> {
    let missing = width.saturating_sub(of.chars().count());
    budget.make(missing.saturating_mul(fill.len_utf8()))?;
    let before = match method {
        "ljust" => 0,
        "rjust" => missing,
        _ => missing / 2 + (missing & width & 1),
    };
    let side = |count: usize| std::iter::repeat_n(fill, count);
    Ok(side(before).chain(of.chars()).chain(side(missing - before)).collect())
}

fn zfill(of: &str, width: usize, budget: &Budget<'_>) -> Outcome<Value> {
    let missing = width.saturating_sub(of.chars().count());
    budget.make(missing)?;
    let (sign, rest) = of.split_at(usize::from(of.starts_with(['+', '-'])));
    Ok(format!("{sign}{}{rest}", "0".repeat(missing)).into())
}

fn expandtabs(of: &str, tab: usize, budget: &Budget<'_>) -> Outcome<Value> {
    budget.make(tab.saturating_mul(of.matches('\t').count()))?;
    let (mut out, mut column) = (String::new(), 0);
    for character in of.chars() {
        match character {
            '\t' => {
                let spaces = if tab == 0 { 0 } else { tab - column % tab };
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            other => {
                out.push(other);
                column = if matches!(other, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    Ok(out.into())
}

/// The part between two places, and the place in characters that it begins at; `None` where the first lies behind the text.
fn between<'t>(of: &'t str, start: Option<&Value>, end: Option<&Value>) -> Outcome<Option<(&'t str, usize)>> {
    let start = given(start).map(whole).transpose()?;
    let end = given(end).map(whole).transpose()?;
    if start.is_none() && end.is_none() {
        return Ok(Some((of, 0)));
    }
    let length = of.chars().count();
    let mut kept = places(length, start, end, 1);
    let at_byte = |place: usize| of.char_indices().nth(place).map_or(of.len(), |(at, _)| at);
    let Some(first) = kept.next() else {
        let start = start.unwrap_or(0);
        let start = if start < 0 { (start + length as i128).max(0) } else { start };
        let end = end.map_or(length as i128, |end| if end < 0 { (end + length as i128).max(0) } else { end });
        let is_within = start <= length as i128 && start <= end.min(length as i128);
        return Ok(is_within.then_some(("", usize::try_from(start).unwrap_or(0))));
    };
    let last = first + kept.count();
    Ok(Some((&of[at_byte(first)..at_byte(last + 1)], first)))
}

fn find(of: &str, method: &str, arguments: &CallArguments) -> Outcome<Value> {
    let [needle, start, end] = arguments.bind(method, ["sub", "start", "end"], 1)?;
    let needle = text(needle.unwrap_or(&Value::UNDEFINED))?;
    let within = between(of, start, end)?;
    if method == "count" {
        return Ok(match (within, needle.is_empty()) {
            (None, _) => 0,
            (Some((part, _)), true) => part.chars().count() + 1,
            (Some((part, _)), false) => part.matches(needle).count(),
        }
        .into());
    }
    let found = within.and_then(|(part, first)| {
        let at = if method.starts_with('r') { part.rfind(needle) } else { part.find(needle) }?;
        Some(first + part[..at].chars().count())
    });
    match found {
        Some(place) => Ok(place.into()),
        None if method.ends_with("find") => Ok(Value::from(-1)),
        None => raise("substring not found"),
    }
}

fn affix(of: &str, method: &str, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    let [affixes, start, end] = arguments.bind(method, [method, "start", "end"], 1)?;
    let affixes = affixes.cloned().unwrap_or_default();
    let affixes = match as_sequence(&affixes).filter(|_| affixes.is_tuple()) {
        Some(affixes) => affixes.into_owned(),
        None => vec![affixes],
    };
    let within = between(of, start, end)?;
    for affix in &affixes {
        budget.step(1)?;
        let Some(affix) = affix.as_str() else {
            return raise(format!("{method} first arg must be str or a tuple of str, not {}", type_name(affix)));
        };
        let holds = within.is_some_and(|(part, _)| match method {
            "startswith" => part.starts_with(affix),
            _ => part.ends_with(affix),
        });
        if holds {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}

/// `of.replace(old, new, count)`; a negative count replaces all.
pub(crate) fn replace(of: &str, old: &str, new: &str, count: Option<i128>, budget: &Budget<'_>) -> Outcome<String> {
    let most = count.and_then(|count| usize::try_from(count).ok());
    let occurring = if old.is_empty() { of.chars().count() + 1 } else { of.matches(old).count() };
    let replaced = most.map_or(occurring, |most| most.min(occurring));
    budget.look_through(of)?;
    budget.step(replaced)?;
    budget.make(of.len().saturating_add(replaced.saturating_mul(new.len())))?;
    Ok(match most {
        Some(most) => of.replacen(old, new, most),
        None => of.replace(old, new),
    })
}

/// `separator.join(parts)`.
fn join(separator: &str, parts: &[Value], budget: &Budget<'_>) -> Outcome<Value> {
    let mut texts = Vec::with_capacity(parts.len());
    for (place, part) in parts.iter().enumerate() {
        match part.as_str() {
            Some(part) => texts.push(part),
            None => {
                return raise(format!("sequence item {place}: expected str instance, {} found", type_name(part)));
            }
        }
    }
    let content: usize = texts.iter().map(|text| text.len()).sum();
    budget.make(content.saturating_add(separator.len().saturating_mul(texts.len())))?;
    Ok(texts.join(separator).into())
}

fn format(of: &str, positional: &[Value], named: &[(Box<str>, Value)], budget: &Budget<'_>) -> Outcome<Value> {
    let look_up = |value: &Value, key: &str, is_item: bool| match (is_item, key.parse::<i64>()) {
        (true, Ok(place)) => item(value, &place.into(), budget),
        (true, Err(_)) => item(value, &key.into(), budget),
        (false, _) => attribute(value, key, budget),
    };
    Ok(python_format::format(of, positional, named, &look_up, budget)?.into())
}

fn translate(of: &str, table: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    let Some(entries) = as_dict(table) else { return raise("translate() needs a dict") };
    let mut out = String::new();
    for character in of.chars() {
        let code = from_integer(u32::from(character).into());
        let mut found = None;
        for (key, value) in &entries {
            if equal(key, &code, budget)? {
                found = Some(value);
            }
        }
        match found {
            None => out.push(character),
            Some(none) if none.is_none() => {}
            Some(value) => match (value.as_str(), integer(value)) {
                (None, Some(code)) => out.extend(u32::try_from(code).ok().and_then(char::from_u32)),
                _ => {
                    let text = python_str_within(value, budget)?;
                    budget.make(text.len())?;
                    out.push_str(&text);
                }
            },
        }
    }
    Ok(out.into())
}

/// Letters that `casefold` writes otherwise than `lower`.
fn casefold(of: &str) -> String {
    let mut out = String::with_capacity(of.len());
    for character in of.chars() {
        match character {
            'ß' | 'ẞ' => out.push_str("ss"),
            'ſ' => out.push('s'),
            'ς' => out.push('σ'),
            'µ' => out.push('μ'),
            'ﬀ' => out.push_str("ff"),
            'ﬁ' => out.push_str("fi"),
            'ﬂ' => out.push_str("fl"),
            'ﬃ' => out.push_str("ffi"),
            'ﬄ' => out.push_str("ffl"),
            'ﬅ' | 'ﬆ' => out.push_str("st"),
            'ŉ' => out.push_str("ʼn"),
            other => out.extend(other.to_lowercase()),
        }
    }
    out
}

fn swapcase(of: &str) -> String {
    let mut out = String::with_capacity(of.len());
    for character in of.chars() {
        if character.is_uppercase() {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
    }
    out
}

fn has_cased(of: &str, fits: impl Fn(char) -> bool) -> bool {
    let mut cased = of.chars().filter(|character| character.is_lowercase() || character.is_uppercase()).peekable();
    cased.peek().is_some() && cased.all(fits)
}

fn is_title(of: &str) -> bool {
    let (mut found, mut inside) = (false, false);
    for character in of.chars() {
        let is_cased = character.is_lowercase() || character.is_uppercase();
        if is_cased && character.is_uppercase() == inside {
            return false;
        }
        (found, inside) = (found || is_cased, is_cased);
    }
    found
}
