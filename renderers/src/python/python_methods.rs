use minijinja::value::{Kwargs, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Calls a method that Python's values have: those written here, whose results must not differ, else the template
/// engine's own.
pub(crate) fn call_method(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    let own = match value.as_str() {
        Some(text) => string_method(text, method, args)?,
        None if value.kind() == ValueKind::Seq && method == "index" => Some(list_index(value, args)?),
        None => None,
    };
    own.map_or_else(|| unknown_method_callback(state, value, method, args), Ok)
}

/// `None` where the method is not written here.
fn string_method(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let result = match method {
        "strip" => Value::from(strip(text, characters(args)?, true, true)),
        "lstrip" => Value::from(strip(text, characters(args)?, true, false)),
        "rstrip" => Value::from(strip(text, characters(args)?, false, true)),
        "split" => split(text, args)?,
        "rsplit" => rsplit(text, args)?,
        "splitlines" => {
            let (keep_ends,): (Option<bool>,) = from_args(args)?;
            splitlines(text, keep_ends.unwrap_or(false)).into_iter().map(Value::from).collect()
        }
        "title" => {
            let () = from_args(args)?;
            Value::from(title(text))
        }
        "partition" => partition(args, |separator| text.split_once(separator), [text, "", ""])?,
        "rpartition" => partition(args, |separator| text.rsplit_once(separator), ["", "", text])?,
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix).unwrap_or(text))
        }
        "ljust" => padded(text, args, |missing| (0, missing))?,
        "rjust" => padded(text, args, |missing| (missing, 0))?,
        "index" => {
            let (needle,): (&str,) = from_args(args)?;
            let at = text.find(needle).ok_or_else(|| not_found("substring"))?;
            Value::from(text[..at].chars().count())
        }
        _ => return Ok(None),
    };
    Ok(Some(result))
}

/// Python's `str.isspace` of one character: Unicode's white space, and the four ASCII separators besides.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// The `trim` filter.
pub(crate) fn trim(text: &str, characters: Option<&str>) -> String {
    strip(text, characters.map(str::to_owned), true, true)
}

fn characters(args: &[Value]) -> Result<Option<String>, Error> {
    let (characters,): (Option<String>,) = from_args(args)?;
    Ok(characters)
}

fn strip(text: &str, characters: Option<String>, start: bool, end: bool) -> String {
    let strips = |character: char| match &characters {
        None => is_space(character),
        Some(set) => set.contains(character),
    };
    let text = if start { text.trim_start_matches(strips) } else { text };
    if end { text.trim_end_matches(strips) } else { text }.to_owned()
}

/// Separator (none splits at runs of white space) and how many splits at most (none is no limit).
fn split_arguments(args: &[Value]) -> Result<(Option<String>, Option<usize>), Error> {
    let (separator, limit, named): (Option<Value>, Option<i64>, Kwargs) = from_args(args)?;
    let separator = match separator {
        Some(separator) => Some(separator),
        None => named.get("sep")?,
    };
    let limit = match limit {
        Some(limit) => Some(limit),
        None => named.get("maxsplit")?,
    };
    named.assert_all_used()?;
    let separator = match separator.filter(|separator| !separator.is_none()) {
        None => None,
        Some(separator) => {
            let message = "the separator is no string";
            Some(separator.as_str().ok_or_else(|| Error::new(ErrorKind::InvalidOperation, message))?.to_owned())
        }
    };
    if separator.as_deref() == Some("") {
        return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
    }
    Ok((separator, limit.and_then(|limit| usize::try_from(limit).ok())))
}

fn split(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit) = split_arguments(args)?;
    Ok(match (separator, limit) {
        (Some(separator), None) => text.split(&separator).map(Value::from).collect(),
        (Some(separator), Some(limit)) => text.splitn(limit + 1, &separator).map(Value::from).collect(),
        (None, limit) => {
            let mut parts = Vec::new();
            let mut rest = text.trim_start_matches(is_space);
            while !rest.is_empty() {
                if limit.is_some_and(|limit| parts.len() == limit) {
                    parts.push(rest);
                    break;
                }
                let end = rest.find(is_space).unwrap_or(rest.len());
                parts.push(&rest[..end]);
                rest = rest[end..].trim_start_matches(is_space);
            }
            parts.into_iter().map(Value::from).collect()
        }
    })
}

fn rsplit(text: &str, args: &[Value]) -> Result<Value, Error> {
    let (separator, limit) = split_arguments(args)?;
    let (Some(separator), Some(limit)) = (&separator, limit) else { return split(text, args) };
    let mut parts: Vec<&str> = text.rsplitn(limit + 1, separator.as_str()).collect();
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}

/// Python's `str.splitlines`.
pub(crate) fn splitlines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_break =
        |character: char| matches!(character, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_break) {
        let end = if rest[at..].starts_with("\r\n") {
            "\r\n".len()
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };
        lines.push(&rest[..if keep_ends { at + end } else { at }]);
        rest = &rest[at + end..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Every letter after something that is no letter becomes a capital: `Don'T`, as Python has it.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for character in text.chars() {
        if inside {
            out.extend(character.to_lowercase());
        } else {
            out.extend(character.to_uppercase());
        }
        inside = character.is_lowercase() || character.is_uppercase();
    }
    out
}

fn partition<'t>(
    args: &'t [Value],
    split_once: impl Fn(&'t str) -> Option<(&'t str, &'t str)>,
    otherwise: [&'t str; 3],
) -> Result<Value, Error> {
    let (separator,): (&str,) = from_args(args)?;
    let [before, middle, after] = split_once(separator).map_or(otherwise, |(before, after)| [before, separator, after]);
    Ok(Value::from((before, middle, after)))
}

fn padded(text: &str, args: &[Value], sides: fn(usize) -> (usize, usize)) -> Result<Value, Error> {
    let (width, fill): (usize, Option<&str>) = from_args(args)?;
    let fill = fill.unwrap_or(" ");
    let (before, after) = sides(width.saturating_sub(text.chars().count()));
    Ok(Value::from(format!("{}{text}{}", fill.repeat(before), fill.repeat(after))))
}

fn list_index(list: &Value, args: &[Value]) -> Result<Value, Error> {
    let (needle,): (Value,) = from_args(args)?;
    list.try_iter()?.position(|item| item == needle).map(Value::from).ok_or_else(|| not_found("item"))
}

fn not_found(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{what} not found"))
}
