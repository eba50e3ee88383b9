//! Jinja's tests: what stands behind `is`.

use std::cmp::Ordering;

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::python::budget::Budget;
use crate::python::library::arguments::CallArguments;
use crate::python::library::filter_names::is_filter;
use crate::python::python_attributes::is_callable;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{Generator, Range, View};
use crate::python::python_ops::{compare, contains, equal, is_same, remainder};
use crate::python::python_repr::python_str_within;
use crate::python::python_values::{Number, number};

/// The names of all tests.
pub(crate) const TESTS: [&str; 38] = [
    "odd",
    "even",
    "divisibleby",
    "defined",
    "undefined",
    "filter",
    "test",
    "none",
    "boolean",
    "false",
    "true",
    "integer",
    "float",
    "lower",
    "upper",
    "string",
    "mapping",
    "number",
    "sequence",
    "iterable",
    "callable",
    "sameas",
    "escaped",
    "in",
    "==",
    "eq",
    "equalto",
    "!=",
    "ne",
    ">",
    "gt",
    "greaterthan",
    ">=",
    "ge",
    "<",
    "lt",
    "lessthan",
    "<=",
];

/// Whether there is a test of that name.
pub(crate) fn is_test(name: &str) -> bool {
    name == "le" || TESTS.contains(&name)
}

/// Whether the first positional argument passes the test.
pub(crate) fn passes(name: &str, arguments: &CallArguments, budget: &Budget<'_>) -> Result<bool, PythonError> {
    let of_two = || {
        let [value, other] = arguments.bind(name, ["value", "other"], 2)?;
        Ok::<_, PythonError>((value.unwrap_or(&Value::UNDEFINED), other.unwrap_or(&Value::UNDEFINED)))
    };
    let orderings = |fits: fn(Ordering) -> bool| {
        let (value, other) = of_two()?;
        Ok(compare(value, other, budget)?.is_some_and(fits))
    };
    match name {
        "divisibleby" => {
            let (value, divisor) = of_two()?;
            equal(&remainder(value, divisor, budget)?, &Value::from(0), budget).map_err(Into::into)
        }
        "sameas" => of_two().map(|(value, other)| is_same(value, other)),
        "in" => {
            let (value, container) = of_two()?;
            contains(container, value, budget)
        }
        "==" | "eq" | "equalto" => {
            let (value, other) = of_two()?;
            Ok(equal(value, other, budget)?)
        }
        "!=" | "ne" => {
            let (value, other) = of_two()?;
            Ok(!equal(value, other, budget)?)
        }
        ">" | "gt" | "greaterthan" => orderings(Ordering::is_gt),
        ">=" | "ge" => orderings(Ordering::is_ge),
        "<" | "lt" | "lessthan" => orderings(Ordering::is_lt),
        "<=" | "le" => orderings(Ordering::is_le),
        _ => {
            let [value] = arguments.bind(name, ["value"], 1)?;
            passes_alone(name, value.unwrap_or(&Value::UNDEFINED), budget)
        }
    }
}

/// Whether a value passes a test without arguments.
pub(crate) fn passes_alone(name: &str, value: &Value, budget: &Budget<'_>) -> Result<bool, PythonError> {
    Ok(match name {
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "none" => value.is_none(),
        "string" => value.kind() == ValueKind::String,
        "mapping" => value.kind() == ValueKind::Map,
        "boolean" => value.kind() == ValueKind::Bool,
        "true" => value.kind() == ValueKind::Bool && value.is_true(),
        "false" => value.kind() == ValueKind::Bool && !value.is_true(),
        "number" => number(value).is_some() || crate::python::python_text::as_long_integer(value).is_some(),
        "integer" => is_integer(value),
        "float" => matches!(number(value), Some(Number::Float(_))),
        "sequence" => is_iterable(value) && !is_without_places(value),
        "iterable" => is_iterable(value),
        "callable" => is_callable(value),
        "escaped" => value.is_safe(),
        "odd" | "even" => {
            let rest = remainder(value, &Value::from(2), budget)?;
            equal(&rest, &Value::from(i64::from(name == "odd")), budget)?
        }
        "lower" => cased(value, budget, |character| character.is_lowercase())?,
        "upper" => cased(value, budget, |character| character.is_uppercase())?,
        "filter" => value.as_str().is_some_and(is_filter),
        "test" => value.as_str().is_some_and(is_test),
        "divisibleby" | "sameas" | "in" | "==" | "eq" | "equalto" | "!=" | "ne" | ">" | "gt" | "greaterthan" | ">="
        | "ge" | "<" | "lt" | "lessthan" | "<=" | "le" => return raise(format!("the test `{name}` needs an argument")),
        other => return raise(format!("there is no test named `{other}`")),
    })
}

fn is_integer(value: &Value) -> bool {
    let is_long = crate::python::python_text::as_long_integer(value).is_some();
    is_long || (value.kind() != ValueKind::Bool && matches!(number(value), Some(Number::Integer(_))))
}

fn is_without_places(value: &Value) -> bool {
    value.downcast_object_ref::<View>().is_some() || value.downcast_object_ref::<Generator>().is_some()
}

fn is_iterable(value: &Value) -> bool {
    let kinds = [ValueKind::String, ValueKind::Seq, ValueKind::Map, ValueKind::Iterable, ValueKind::Undefined];
    kinds.contains(&value.kind()) || is_without_places(value) || value.downcast_object_ref::<Range>().is_some()
}

fn cased(value: &Value, budget: &Budget<'_>, fits: impl Fn(char) -> bool) -> Result<bool, PythonError> {
    let text = python_str_within(value, budget)?;
    budget.look_through(&text)?;
    let mut cased = text.chars().filter(|character| character.is_lowercase() || character.is_uppercase()).peekable();
    Ok(cased.peek().is_some() && cased.all(fits))
}
