//! Calls of methods.

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, given, whole};
use crate::python::library::string_methods;
use crate::python::python_attributes::has_method;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{Cycler, Range, View, as_dict, as_sequence, tuple};
use crate::python::python_ops::{check_hashable, dict_item, equal, places};
use crate::python::python_values::{Number, number, type_name};

/// Calls a method that Python's type of a value has.
pub(crate) fn call_method(
    value: &Value,
    method: &str,
    arguments: &CallArguments,
    budget: &Budget<'_>,
) -> Result<Value, PythonError> {
    if let Some(text) = value.as_str() {
        return string_methods::call(text, method, arguments, budget);
    }
    if let Some(cycler) = value.downcast_object_ref::<Cycler>() {
        let [] = arguments.bind(method, [], 0)?;
        if method == "next" {
            return Ok(cycler.advance());
        }
        cycler.at.store(0, std::sync::atomic::Ordering::Relaxed);
        return Ok(().into());
    }
    if !has_method(value, method) {
        return raise(format!("'{}' object has no method `{method}` here", type_name(value)));
    }
    match value.kind() {
        ValueKind::Map => dict_method(value, method, arguments, budget),
        ValueKind::Seq | ValueKind::Plain if number(value).is_none() => list_method(value, method, arguments, budget),
        _ => number_method(value, method, arguments),
    }
}

fn dict_method(
    dict: &Value,
    method: &str,
    arguments: &CallArguments,
    budget: &Budget<'_>,
) -> Result<Value, PythonError> {
    if method == "get" {
        let [key, default] = arguments.bind(method, ["key", "default"], 1)?;
        let key = key.cloned().unwrap_or_default();
        check_hashable(&key, budget)?;
        let found = dict_item(dict, &key, budget)?;
        return Ok(found.unwrap_or_else(|| default.cloned().unwrap_or(Value::from(()))));
    }
    if !["items", "keys", "values", "copy"].contains(&method) {
        return changes(method);
    }
    let [] = arguments.bind(method, [], 0)?;
    let entries = as_dict(dict).unwrap_or_default();
    budget.make_items(entries.len().saturating_mul(2))?;
    let view = |name, items| Value::from_object(View { name, items });
    Ok(match method {
        "items" => view("dict_items", entries.into_iter().map(|(key, item)| tuple(vec![key, item])).collect()),
        "keys" => view("dict_keys", entries.into_iter().map(|(key, _)| key).collect()),
        "values" => view("dict_values", entries.into_iter().map(|(_, item)| item).collect()),
        _ => dict.clone(),
    })
}

/// What Jinja's sandbox says of methods that change what they are called on.
fn changes<T>(method: &str) -> Result<T, PythonError> {
    raise(format!("access to attribute '{method}' is unsafe: a template must not change what it is given"))
}

fn list_method(
    list: &Value,
    method: &str,
    arguments: &CallArguments,
    budget: &Budget<'_>,
) -> Result<Value, PythonError> {
    let items = match list.downcast_object_ref::<Range>() {
        Some(Range { items, .. }) => items.as_slice().into(),
        None => as_sequence(list).unwrap_or_default(),
    };
    match method {
        "count" => {
            let [wanted] = arguments.bind(method, ["value"], 1)?;
            let wanted = wanted.cloned().unwrap_or_default();
            let mut count = 0;
            for item in &*items {
                count += usize::from(equal(item, &wanted, budget)?);
            }
            Ok(count.into())
        }
        "index" => {
            let [wanted, start, stop] = arguments.bind(method, ["value", "start", "stop"], 1)?;
            let wanted = wanted.cloned().unwrap_or_default();
            let (start, stop) = (given(start).map(whole).transpose()?, given(stop).map(whole).transpose()?);
            for place in places(items.len(), start, stop, 1) {
                if equal(&items[place], &wanted, budget)? {
                    return Ok(place.into());
                }
            }
            raise("the item is not in the list")
        }
        "copy" => {
            let [] = arguments.bind(method, [], 0)?;
            budget.make_items(items.len())?;
            Ok(Value::from(items.into_owned()))
        }
        _ => changes(method),
    }
}

fn number_method(value: &Value, method: &str, arguments: &CallArguments) -> Result<Value, PythonError> {
    let [] = arguments.bind(method, [], 0)?;
    match (number(value), method) {
        (Some(Number::Integer(integer)), "bit_length") => Ok((128 - integer.unsigned_abs().leading_zeros()).into()),
        (Some(Number::Integer(integer)), "bit_count") => Ok(integer.unsigned_abs().count_ones().into()),
        (Some(Number::Integer(integer)), "as_integer_ratio") => {
            Ok(tuple(vec![Number::Integer(integer).value(), Value::from(1)]))
        }
        (Some(number), "conjugate") => Ok(number.value()),
        (Some(Number::Float(float)), "is_integer") => Ok((float.is_finite() && float.fract() == 0.0).into()),
        _ => raise(format!("'{}' object has no method `{method}` here", type_name(value))),
    }
}
