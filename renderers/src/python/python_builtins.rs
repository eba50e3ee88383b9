use minijinja::value::{Kwargs, StringInput, ValueKind};
use minijinja::{Environment, Error, State, Value, filters};

use crate::python::python_methods::{is_space, splitlines, trim};
use crate::python::python_text::{as_float, as_long_integer, python_str};

/// Gives an environment the filters and tests of Python's jinja2 whose results differ from the template engine's own.
pub(crate) fn add_to(environment: &mut Environment<'static>) {
    minijinja_contrib::add_to_environment(environment);
    environment.add_filter("string", |value: &Value| python_str(value).into_owned());
    environment.add_filter("trim", |value: &Value, characters: Option<&str>| trim(&python_str(value), characters));
    environment.add_filter("replace", replace);
    environment.add_filter("indent", indent);
    environment.add_filter("title", |value: &Value| title(&python_str(value)));
    environment.add_filter("join", join);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", |value: &Value| is_iterable(value) && value.kind() != ValueKind::Iterable);
    environment.add_test("number", |value: &Value| is_number(value) || value.kind() == ValueKind::Bool);
    environment.add_test("integer", |value: &Value| value.is_integer() || as_long_integer(value).is_some());
    environment.add_test("float", |value: &Value| as_float(value).is_some());
}

/// Replaces all occurrences, or the first `count`.
fn replace(value: &Value, from: &str, to: &str, count: Option<i64>) -> String {
    let text = python_str(value);
    match count.and_then(|count| usize::try_from(count).ok()) {
        Some(count) => text.replacen(from, to, count),
        None => text.replace(from, to),
    }
}

/// Indents every line but the first by `width` spaces, or by `width` itself where it is text; empty lines only with
/// `blank`, the first only with `first`.
fn indent(
    value: &Value,
    width: Option<Value>,
    first: Option<bool>,
    blank: Option<bool>,
    options: Kwargs,
) -> Result<String, Error> {
    let width = width.map_or_else(|| options.get::<Option<Value>>("width"), |width| Ok(Some(width)))?;
    let first = first.map_or_else(|| options.get::<Option<bool>>("first"), |first| Ok(Some(first)))?;
    let blank = blank.map_or_else(|| options.get::<Option<bool>>("blank"), |blank| Ok(Some(blank)))?;
    options.assert_all_used()?;
    let margin = match width {
        None => "    ".to_owned(),
        Some(width) => match width.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(i64::try_from(width)?).unwrap_or(0)),
        },
    };
    let text = python_str(value) + "\n";
    let mut out = String::with_capacity(text.len());
    for (index, line) in splitlines(&text, false).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let indented = if index == 0 { first == Some(true) } else { blank == Some(true) || !line.is_empty() };
        out.push_str(if indented { &margin } else { "" });
        out.push_str(line);
    }
    Ok(out)
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

/// Items are joined by their Python text.
fn join(
    state: &mut State<'_, '_>,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    options: Kwargs,
) -> Result<Value, Error> {
    if attribute.is_some() || options.has("attribute") || value.as_str().is_some() {
        return filters::join(state, value, joiner, attribute, options);
    }
    let texts: Value = value.try_iter()?.map(|item| Value::from(python_str(&item))).collect();
    filters::join(state, &texts, joiner, None, options)
}

/// What is no number is 0 by default, never an error.
fn int(
    state: &State,
    value: &Value,
    default: Option<Value>,
    base: Option<u32>,
    options: Kwargs,
) -> Result<Value, Error> {
    let default = if options.has("default") { default } else { default.or(Some(Value::from(0))) };
    let value = as_float(value).map_or_else(|| value.clone(), Value::from);
    filters::int(state, &value, default, base, options)
}

/// What is no number is 0.0 by default, never an error.
fn float(state: &State, value: &Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let default = if options.has("default") { default } else { default.or(Some(Value::from(0.0))) };
    let value = as_float(value).map_or_else(|| value.clone(), Value::from);
    filters::float(state, &value, default, options)
}

fn is_iterable(value: &Value) -> bool {
    let kinds = [ValueKind::String, ValueKind::Seq, ValueKind::Map, ValueKind::Iterable, ValueKind::Undefined];
    kinds.contains(&value.kind())
}

fn is_number(value: &Value) -> bool {
    value.kind() == ValueKind::Number || as_float(value).is_some() || as_long_integer(value).is_some()
}
