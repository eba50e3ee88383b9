//! Fields, items and methods of values.

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::python::budget::Budget;
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{BoundMethod, Cycler, Generator, Namespace, Range, View, as_list, as_sequence};
use crate::python::python_ops::{check_hashable, dict_item};
use crate::python::python_values::{Number, integer, number, type_name};

type Outcome<T> = Result<T, PythonError>;

/// Jinja's `value[key]`.
pub(crate) fn item(value: &Value, key: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    budget.step(1)?;
    if value.is_undefined() {
        return raise("an undefined value has no items");
    }
    let found = match value.kind() {
        // Jinja takes a key that no dict can have for one that this has not.
        ValueKind::Map if check_hashable(key, budget).is_err() => None,
        ValueKind::Map => dict_item(value, key, budget)?,
        _ => match integer(key) {
            Some(place) => item_at(value, place, budget)?,
            None => None,
        },
    };
    match (found, key.as_str()) {
        (Some(found), _) => Ok(found),
        (None, Some(name)) => Ok(own_attribute(value, name).unwrap_or_default()),
        (None, None) => Ok(Value::UNDEFINED),
    }
}

fn item_at(value: &Value, place: i128, budget: &Budget<'_>) -> Outcome<Option<Value>> {
    let at = |length: usize| {
        let place = if place < 0 { place.saturating_add(length as i128) } else { place };
        usize::try_from(place).ok()
    };
    if let Some(text) = value.as_str() {
        budget.look_through(text)?;
        let place = at(text.chars().count());
        return Ok(place.and_then(|place| text.chars().nth(place)).map(Value::from));
    }
    if let Some(items) = as_list(value) {
        return Ok(at(items.len()).and_then(|place| items.get(place)).cloned());
    }
    if let Some(Range { items, .. }) = value.downcast_object_ref() {
        return Ok(at(items.len()).and_then(|place| items.get(place)).cloned());
    }
    let items = as_sequence(value).unwrap_or_default();
    Ok(at(items.len()).and_then(|place| items.get(place)).cloned())
}

/// Jinja's `value.name`.
pub(crate) fn attribute(value: &Value, name: &str, budget: &Budget<'_>) -> Outcome<Value> {
    budget.step(1)?;
    if value.is_undefined() {
        return raise(format!("an undefined value has no attribute `{name}`"));
    }
    if let Some(own) = own_attribute(value, name) {
        return Ok(own);
    }
    match value.kind() {
        ValueKind::Map => Ok(dict_item(value, &Value::from(name), budget)?.unwrap_or_default()),
        _ => Ok(Value::UNDEFINED),
    }
}

/// What Python's `getattr` finds: a field or a method.
fn own_attribute(value: &Value, name: &str) -> Option<Value> {
    if let Some(namespace) = value.downcast_object_ref::<Namespace>() {
        return namespace.get(name);
    }
    if let Some(cycler) = value.downcast_object_ref::<Cycler>()
        && name == "current"
    {
        return Some(cycler.current());
    }
    if value.is_tuple()
        && let ("grouper" | "list", Some(items)) = (name, as_sequence(value))
        && let [grouper, list] = &*items
    {
        return Some(if name == "grouper" { grouper } else { list }.clone());
    }
    if let Some(part) = part_of_number(value, name) {
        return Some(part);
    }
    has_method(value, name).then(|| Value::from_object(BoundMethod { value: value.clone(), name: name.into() }))
}

/// What a number is made of: `real`, `imag`, and of an integer `numerator` and `denominator`.
fn part_of_number(value: &Value, name: &str) -> Option<Value> {
    Some(match (name, number(value)?) {
        ("real", part) | ("numerator", part @ Number::Integer(_)) => part.value(),
        ("imag", Number::Integer(_)) => 0.into(),
        ("imag", Number::Float(_)) => Number::Float(0.0).value(),
        ("denominator", Number::Integer(_)) => 1.into(),
        _ => return None,
    })
}

/// Whether Python's type of a value has a method of that name.
pub(crate) fn has_method(value: &Value, name: &str) -> bool {
    methods_of(value).contains(&name)
}

/// The names of methods that a value has, those that change it among them, which fail.
fn methods_of(value: &Value) -> &'static [&'static str] {
    if value.downcast_object_ref::<Cycler>().is_some() {
        return &["next", "reset"];
    }
    match type_name(value) {
        "str" | "Markup" => STRING_METHODS,
        "list" => LIST_METHODS,
        "tuple" | "range" => &["count", "index"],
        "dict" => DICT_METHODS,
        "int" | "bool" => &["bit_count", "bit_length", "conjugate", "as_integer_ratio"],
        "float" => &["is_integer", "conjugate"],
        _ => &[],
    }
}

/// Every method that values have.
pub(crate) fn is_method(name: &str) -> bool {
    [STRING_METHODS, LIST_METHODS, DICT_METHODS].iter().any(|methods| methods.contains(&name))
        || ["bit_count", "bit_length", "conjugate", "is_integer", "next", "reset", "cycle", "changed"].contains(&name)
}

const STRING_METHODS: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "expandtabs",
    "find",
    "format",
    "format_map",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "isidentifier",
    "islower",
    "isnumeric",
    "isprintable",
    "isspace",
    "istitle",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "swapcase",
    "title",
    "translate",
    "upper",
    "zfill",
];

const LIST_METHODS: &[&str] =
    &["append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"];

const DICT_METHODS: &[&str] =
    &["clear", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "update", "values"];

/// Whether a value can be called.
pub(crate) fn is_callable(value: &Value) -> bool {
    fn is<T: 'static>(value: &Value) -> bool {
        value.downcast_object_ref::<T>().is_some()
    }
    // Calling what is undefined fails, as Python's does.
    if value.is_undefined() {
        return true;
    }
    let is_data = [is::<View>, is::<Generator>, is::<Range>, is::<Namespace>, is::<Cycler>];
    value.kind() == ValueKind::Plain && type_name(value) == "function" && !is_data.iter().any(|is| is(value))
}

/// Whether a name is that of a dict's method, which goes before a key of that name.
pub(crate) fn is_dict_method(name: &str) -> bool {
    DICT_METHODS.contains(&name)
}
