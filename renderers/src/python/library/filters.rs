//! Jinja's filters: what stands behind `|`.

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, flag, given, text, whole};
use crate::python::library::numbers::{python_float, without_underscores};
use crate::python::library::{html_filters, sequence_filters, text_filters, wrapping};
use crate::python::python_attributes::{attribute, has_method};
use crate::python::python_error::{PythonError, raise};
use crate::python::python_json::{JsonStyle, to_json_within};
use crate::python::python_objects::{as_sequence, check_depth};
use crate::python::python_ops::{items, length, multiply, truth};
use crate::python::python_repr::python_str_within;
use crate::python::python_strings::strip;
use crate::python::python_text::{as_long_integer, from_float, from_json_text};
use crate::python::python_values::{Number, from_integer, number, type_name};

type Outcome<T> = Result<T, PythonError>;

/// Applies a filter to the first positional argument.
pub(crate) fn apply(name: &str, arguments: &CallArguments, budget: &Budget<'_>) -> Outcome<Value> {
    budget.step(1)?;
    let undefined = Value::UNDEFINED;
    let value = arguments.positional.first().unwrap_or(&undefined);
    let alone = || arguments.bind(name, ["value"], 0).map(|_| ());
    match name {
        "default" | "d" => default(name, arguments, value),
        "length" | "count" => {
            alone()?;
            match length(value) {
                Some(length) => Ok(length.into()),
                None => raise(format!("object of type '{}' has no len()", type_name(value))),
            }
        }
        "tojson" => tojson(arguments, value, budget),
        "fromjson" | "from_json" => {
            alone()?;
            fromjson(value, budget)
        }
        "string" => {
            alone()?;
            let text = python_str_within(value, budget)?;
            budget.make(text.len())?;
            Ok(if value.is_safe() { value.clone() } else { text.into() })
        }
        "list" => {
            alone()?;
            let items = items(value, budget)?.into_owned();
            budget.make_items(items.len())?;
            Ok(Value::from(items))
        }
        "trim" => trim(arguments, value, budget),
        "abs" => {
            alone()?;
            abs(value)
        }
        "attr" => attr(arguments, value, budget),
        "int" => int(arguments, value),
        "float" => float(arguments, value),
        "round" => round(arguments, value),
        "random" => {
            alone()?;
            let items = items(value, budget)?;
            Ok(items.get(budget.choose(items.len())).cloned().unwrap_or_default())
        }
        "batch" | "dictsort" | "first" | "groupby" | "items" | "join" | "last" | "map" | "max" | "min" | "reject"
        | "rejectattr" | "reverse" | "select" | "selectattr" | "slice" | "sort" | "sum" | "unique" => {
            sequence_filters::apply(name, value, arguments, apply, budget)
        }
        "e" | "escape" | "forceescape" | "safe" | "striptags" | "urlencode" | "urlize" | "xmlattr" => {
            html_filters::apply(name, value, arguments, budget)
        }
        "wordwrap" | "truncate" | "pprint" => wrapping::apply(name, value, arguments, budget),
        "capitalize" | "center" | "filesizeformat" | "format" | "indent" | "lower" | "replace" | "title" | "upper"
        | "wordcount" => text_filters::apply(name, value, arguments, budget),
        other => raise(format!("there is no filter named `{other}`")),
    }
    .and_then(|made| {
        // What filters make can lie one level deeper.
        if as_sequence(&made).is_some() {
            check_depth(&made, budget)?;
        }
        Ok(made)
    })
}

fn default(name: &str, arguments: &CallArguments, value: &Value) -> Outcome<Value> {
    let [_, default, boolean] = arguments.bind(name, ["value", "default_value", "boolean"], 0)?;
    let is_missing = value.is_undefined() || (flag(boolean, false) && !truth(value));
    Ok(if is_missing { default.cloned().unwrap_or_else(|| "".into()) } else { value.clone() })
}

fn float(arguments: &CallArguments, value: &Value) -> Outcome<Value> {
    let [_, default] = arguments.bind("float", ["value", "default"], 0)?;
    if value.is_undefined() {
        return raise("an undefined value is no number");
    }
    Ok(python_float(value).map_or_else(|| default.cloned().unwrap_or_else(|| from_float(0.0)), from_float))
}

fn fromjson(value: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    match value.as_str() {
        // Many agents hold arguments as objects already.
        None => raise(format!("the JSON object must be str, not {}", type_name(value))),
        Some(json) => {
            budget.look_through(json)?;
            budget.make(json.len().saturating_mul(8))?;
            from_json_text(json, &|text| Value::from(text))
                .ok_or_else(|| PythonError::new("fromjson: the text is no JSON"))
        }
    }
}

fn trim(arguments: &CallArguments, value: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    let [_, characters] = arguments.bind("trim", ["value", "chars"], 0)?;
    let whole = python_str_within(value, budget)?;
    budget.look_through(&whole)?;
    budget.make(whole.len())?;
    let trimmed = strip(&whole, given(characters).map(text).transpose()?, [true, true]);
    Ok(if value.is_safe() { Value::from_safe_string(trimmed.to_owned()) } else { trimmed.into() })
}

fn abs(value: &Value) -> Outcome<Value> {
    match number(value) {
        Some(Number::Integer(integer)) => Ok(from_integer(integer.saturating_abs())),
        Some(Number::Float(float)) => Ok(from_float(float.abs())),
        None => raise(format!("bad operand type for abs(): '{}'", type_name(value))),
    }
}

fn attr(arguments: &CallArguments, value: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    let [_, name] = arguments.bind("attr", ["value", "name"], 2)?;
    let name = python_str_within(name.unwrap_or(&Value::UNDEFINED), budget)?;
    // A key of a dict is no attribute.
    let is_own = value.kind() != minijinja::value::ValueKind::Map || has_method(value, &name);
    if is_own { attribute(value, &name, budget) } else { Ok(Value::UNDEFINED) }
}

fn int(arguments: &CallArguments, value: &Value) -> Outcome<Value> {
    let [_, default, base] = arguments.bind("int", ["value", "default", "base"], 0)?;
    let default = default.cloned().unwrap_or_else(|| Value::from(0));
    let base = base.map_or(Ok(10), whole)?;
    if value.is_undefined() {
        return raise("an undefined value is no number");
    }
    if as_long_integer(value).is_some() {
        return Ok(value.clone());
    }
    if let Some(text) = value.as_str()
        && let Some(integer) = integer_of_text(text, base)
    {
        return Ok(from_integer(integer));
    }
    let Some(float) = (match number(value) {
        Some(Number::Integer(integer)) => return Ok(from_integer(integer)),
        Some(Number::Float(float)) => Some(float),
        None => python_float(value),
    }) else {
        return Ok(default);
    };
    // Beyond what a float holds exactly, and below what is kept here.
    if float.is_finite() && float.abs() < 1.7e38 { Ok(from_integer(float.trunc() as i128)) } else { Ok(default) }
}

fn integer_of_text(text: &str, base: i128) -> Option<i128> {
    let text = strip(text, None, [true, true]);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_lowercase();
    let prefixed = [("0x", 16), ("0o", 8), ("0b", 2)].into_iter().find_map(|(prefix, radix)| {
        (base == radix || base == 0).then(|| Some((lower.strip_prefix(prefix)?, radix))).flatten()
    });
    let (digits, base) = match prefixed {
        Some((digits, radix)) => (digits.strip_prefix('_').unwrap_or(digits), radix),
        None => (lower.as_str(), if base == 0 { 10 } else { base }),
    };
    let radix = u32::try_from(base).ok().filter(|radix| (2..=36).contains(radix))?;
    let digits = without_underscores(digits)?;
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let digits: Option<String> = digits.chars().map(|digit| ascii_digit(digit, radix)).collect();
    i128::from_str_radix(&digits?, radix).ok().map(|size| sign * size)
}

/// A digit of any script as ASCII has it.
fn ascii_digit(digit: char, radix: u32) -> Option<char> {
    if digit.is_digit(radix) {
        return Some(digit);
    }
    // Decimal digits stand in runs of ten in Unicode, most of which begin at a multiple of sixteen, or six after it.
    let place = u32::from(digit) & 0xf;
    let place = if place >= 6 && digit.is_numeric() && !digit.is_ascii() { place - 6 } else { place };
    (digit.is_numeric() && !digit.is_ascii()).then(|| char::from_digit(place, 10)).flatten()
}

fn round(arguments: &CallArguments, value: &Value) -> Outcome<Value> {
    let [_, precision, method] = arguments.bind("round", ["value", "precision", "method"], 0)?;
    let precision = precision.map_or(Ok(0), whole)?;
    let method = method.map_or(Ok("common"), text)?;
    let Some(value) = number(value) else {
        return raise(format!("type {} doesn't define __round__ method", type_name(value)));
    };
    let places = i32::try_from(precision.clamp(-400, 400)).unwrap_or(0);
    match (method, value) {
        ("common", Number::Integer(integer)) if places >= 0 => Ok(from_integer(integer)),
        ("common", Number::Integer(integer)) => {
            let Some(unit) = 10i128.checked_pow(places.unsigned_abs()) else { return Ok(Value::from(0)) };
            let (down, rest) = (integer.div_euclid(unit), integer.rem_euclid(unit));
            let is_up = rest * 2 > unit || (rest * 2 == unit && down % 2 != 0);
            Ok(from_integer((down + i128::from(is_up)) * unit))
        }
        ("common", Number::Float(float)) if places >= 0 => {
            let digits = usize::try_from(places).unwrap_or(0);
            Ok(from_float(format!("{float:.digits$}").parse().unwrap_or(float)))
        }
        ("common", Number::Float(float)) => {
            let unit = 10f64.powi(-places);
            Ok(from_float((float / unit).round_ties_even() * unit))
        }
        ("ceil" | "floor", value) => {
            let unit = 10f64.powi(places);
            let scaled = value.float() * unit;
            let whole = if method == "ceil" { scaled.ceil() } else { scaled.floor() };
            if !whole.is_finite() {
                return raise("cannot convert float infinity to integer");
            }
            Ok(from_float(whole / unit))
        }
        _ => raise("method must be common, ceil or floor"),
    }
}

/// `json.dumps` with the keyword arguments that Hugging Face passes on.
fn tojson(arguments: &CallArguments, value: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    let parameters = ["x", "ensure_ascii", "indent", "separators", "sort_keys"];
    let [_, ensure_ascii, indent, separators, sort_keys] = arguments.bind("tojson", parameters, 1)?;
    let indent = match given(indent) {
        None => None,
        Some(indent) => match indent.as_str() {
            Some(text) => Some(text.to_owned()),
            None => multiply(&" ".into(), indent, budget)?.as_str().map(str::to_owned),
        },
    };
    let (item_separator, key_separator) = match given(separators) {
        // Python leaves the space before a line break out.
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(pair) => match items(pair, budget)?.as_ref() {
            [item, key] => (text(item)?.to_owned(), text(key)?.to_owned()),
            _ => return raise("tojson takes two separators"),
        },
    };
    let style = JsonStyle {
        ensure_ascii: flag(ensure_ascii, false),
        sort_keys: flag(sort_keys, false),
        indent,
        item_separator: item_separator.into(),
        key_separator: key_separator.into(),
    };
    Ok(to_json_within(value, &style, budget)?.into())
}
