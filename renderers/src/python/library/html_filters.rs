//! Filters of HTML and of addresses.

use std::sync::LazyLock;

use minijinja::Value;
use regex::Regex;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, flag, given, text, whole};
use crate::python::python_error::{PythonError, raise};
use crate::python::python_markup::{escape_text, escaped};
use crate::python::python_objects::{as_dict, as_sequence};
use crate::python::python_ops::items;
use crate::python::python_repr::python_str_within;
use crate::python::python_strings::is_space;

/// Applies a filter of this file.
pub(super) fn apply(
    name: &str,
    value: &Value,
    arguments: &CallArguments,
    budget: &Budget<'_>,
) -> Result<Value, PythonError> {
    let alone = || arguments.bind(name, ["value"], 0).map(|_| ());
    match name {
        "e" | "escape" => alone().and_then(|()| Ok(Value::from_safe_string(escaped(value, budget)?.into_owned()))),
        "forceescape" => {
            alone()?;
            let text = python_str_within(value, budget)?;
            Ok(Value::from_safe_string(escape_text(&text, budget)?))
        }
        "safe" => {
            alone()?;
            let text = python_str_within(value, budget)?.into_owned();
            budget.make(text.len())?;
            Ok(Value::from_safe_string(text))
        }
        "striptags" => {
            alone()?;
            let text = python_str_within(value, budget)?;
            budget.look_through(&text)?;
            budget.make(text.len())?;
            Ok(striptags(&text).into())
        }
        "urlencode" => {
            alone()?;
            urlencode(value, budget)
        }
        "xmlattr" => xmlattr(value, arguments, budget),
        _ => urlize(value, arguments, budget),
    }
}

fn striptags(text: &str) -> String {
    let mut rest = text.to_owned();
    for (open, close) in [("<!--", "-->"), ("<", ">")] {
        let mut out = String::new();
        let mut left = rest.as_str();
        while let Some(start) = left.find(open) {
            let Some(end) = left[start..].find(close) else { break };
            out.push_str(&left[..start]);
            left = &left[start + end + close.len()..];
        }
        out.push_str(left);
        rest = out;
    }
    let words: Vec<&str> = rest.split(is_space).filter(|word| !word.is_empty()).collect();
    unescape(&words.join(" "))
}

fn unescape(text: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&#39;", "'"), ("&#34;", "\""), ("&quot;", "\""), ("&amp;", "&")];
    named.iter().fold(text.to_owned(), |text, (entity, character)| text.replace(entity, character))
}

fn urlencode(value: &Value, budget: &Budget<'_>) -> Result<Value, PythonError> {
    if let Some(text) = value.as_str() {
        return Ok(quoted(text, true, budget)?.into());
    }
    let pairs = match as_dict(value) {
        Some(entries) => entries,
        None if matches!(value.kind(), minijinja::value::ValueKind::Seq) => {
            let mut pairs = Vec::new();
            for pair in &*items(value, budget)? {
                match &*as_sequence(pair).unwrap_or_default() {
                    [key, item] => pairs.push((key.clone(), item.clone())),
                    _ => return raise("not enough values to unpack (expected 2)"),
                }
            }
            pairs
        }
        None => return Ok(quoted(&python_str_within(value, budget)?, true, budget)?.into()),
    };
    let mut out = Vec::new();
    for (key, item) in &pairs {
        let part = |value| {
            let text = quoted(&python_str_within(value, budget)?, false, budget)?;
            Ok::<_, PythonError>(text.replace("%20", "+"))
        };
        out.push(format!("{}={}", part(key)?, part(item)?));
    }
    Ok(out.join("&").into())
}

fn quoted(text: &str, keeps_slash: bool, budget: &Budget<'_>) -> Result<String, PythonError> {
    budget.look_through(text)?;
    budget.make(text.len().saturating_mul(3))?;
    let mut out = String::new();
    for byte in text.bytes() {
        let is_kept = byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) || (keeps_slash && byte == b'/');
        match is_kept {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(out)
}

fn xmlattr(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Result<Value, PythonError> {
    let [_, autospace] = arguments.bind("xmlattr", ["d", "autospace"], 0)?;
    let Some(entries) = as_dict(value) else { return raise("xmlattr needs a dict") };
    let mut parts = Vec::new();
    for (key, item) in &entries {
        if item.is_none() || item.is_undefined() {
            continue;
        }
        let key_text = python_str_within(key, budget)?;
        let ends_a_name = |character: char| is_space(character) || "/>=".contains(character);
        if key_text.contains(ends_a_name) {
            return raise(format!("Invalid character in attribute name: '{key_text}'"));
        }
        parts.push(format!("{}=\"{}\"", escaped(key, budget)?, escaped(item, budget)?));
    }
    let text = parts.join(" ");
    let space = if flag(autospace, true) && !text.is_empty() { " " } else { "" };
    Ok(format!("{space}{text}").into())
}

static ADDRESS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)^((https?://|www\.)(([\w%-]+\.)+)?([a-z]{2,63}|xn--[\w%]{2,59})|([\w%-]{2,63}\.)+(com|net|int|edu|gov|org|info|mil)|(https?://)((([\d]{1,3})(\.[\d]{1,3}){3})|(\[([\da-f]{0,4}:){2}([\da-f]{0,4}:?){1,6}\])))(:[\d]{1,5})?([/?#]\S*)?$").ok()
});
static MAIL: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\S+@\w[\w.-]*\.\w+$").ok());

fn urlize(value: &Value, arguments: &CallArguments, budget: &Budget<'_>) -> Result<Value, PythonError> {
    let parameters = ["value", "trim_url_limit", "nofollow", "target", "rel", "extra_schemes"];
    let [_, limit, nofollow, target, rel, _] = arguments.bind("urlize", parameters, 0)?;
    let limit = given(limit).map(whole).transpose()?.and_then(|limit| usize::try_from(limit).ok());
    let mut rels: Vec<&str> = rel.map_or(Ok(""), text)?.split_whitespace().collect();
    if flag(nofollow, false) {
        rels.push("nofollow");
    }
    rels.push("noopener");
    rels.sort_unstable();
    rels.dedup();
    let rel = format!(" rel=\"{}\"", escape_text(&rels.join(" "), budget)?);
    let target = match given(target) {
        Some(target) => format!(" target=\"{}\"", escaped(target, budget)?),
        None => String::new(),
    };
    let whole_text = escaped(value, budget)?;
    budget.look_through(&whole_text)?;
    let attributes = rel + &target;
    let mut out = String::new();
    let mut rest = &*whole_text;
    while !rest.is_empty() {
        let is_gap = rest.starts_with(is_space);
        let end = rest.find(|character| is_space(character) != is_gap).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        budget.make(word.len().saturating_mul(3).saturating_add(attributes.len()))?;
        if is_gap {
            out.push_str(word);
            continue;
        }
        let (mut head, mut middle) = (String::new(), word);
        while let Some(opening) = ["(", "<", "&lt;"].into_iter().find(|opening| middle.starts_with(opening)) {
            head.push_str(opening);
            middle = &middle[opening.len()..];
        }
        let opened = middle;
        while let Some(closing) =
            [")", ">", ".", ",", "\n", "&gt;"].into_iter().find(|closing| middle.ends_with(closing))
        {
            middle = &middle[..middle.len() - closing.len()];
        }
        let tail = &opened[middle.len()..];
        out.push_str(&format!("{head}{}{tail}", linked(middle, limit, &attributes)));
    }
    Ok(out.into())
}

/// A word as a link, with these attributes, if it is an address of a page or of mail.
fn linked(word: &str, limit: Option<usize>, attributes: &str) -> String {
    let matches =
        |pattern: &LazyLock<Option<Regex>>, text: &str| pattern.as_ref().is_some_and(|pattern| pattern.is_match(text));
    if matches(&ADDRESS, word) {
        let scheme = if word.starts_with("http://") || word.starts_with("https://") { "" } else { "https://" };
        let shown = match limit {
            Some(limit) if word.chars().count() > limit => word.chars().take(limit).collect::<String>() + "...",
            _ => word.to_owned(),
        };
        format!("<a href=\"{scheme}{word}\"{attributes}>{shown}</a>")
    } else if let Some(mail) = word.strip_prefix("mailto:").filter(|mail| matches(&MAIL, mail)) {
        format!("<a href=\"{word}\">{mail}</a>")
    } else if word.contains('@') && !word.starts_with("www.") && !word.contains(':') && matches(&MAIL, word) {
        format!("<a href=\"mailto:{word}\">{word}</a>")
    } else {
        word.to_owned()
    }
}
