//! Numbers and types as Python has them.

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::python::python_objects::{Generator, Namespace, Range, View};
use crate::python::python_text::{as_float, as_long_integer, from_float};

/// A number; what is true or false counts as 1 or 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }

    pub(crate) fn value(self) -> Value {
        match self {
            Self::Integer(integer) => from_integer(integer),
            Self::Float(float) => from_float(float),
        }
    }
}

/// An integer as templates see it.
pub(crate) fn from_integer(integer: i128) -> Value {
    i64::try_from(integer).map_or_else(|_| Value::from(integer), Value::from)
}

/// The number that a value is, if it is one.
pub(crate) fn number(value: &Value) -> Option<Number> {
    if value.kind() == ValueKind::Bool {
        return Some(Number::Integer(value.is_true().into()));
    }
    if let Some(float) = as_float(value) {
        return Some(Number::Float(float));
    }
    integer(value).map(Number::Integer)
}

/// The integer that a value is, if it is one.
pub(crate) fn integer(value: &Value) -> Option<i128> {
    if let Some(digits) = as_long_integer(value) {
        return digits.parse().ok();
    }
    match value.kind() {
        ValueKind::Bool => Some(value.is_true().into()),
        ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok(),
        _ => None,
    }
}

/// The name of a value's type.
pub(crate) fn type_name(value: &Value) -> &'static str {
    if as_long_integer(value).is_some() {
        return "int";
    }
    if as_float(value).is_some() {
        return "float";
    }
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number => "int",
        ValueKind::String if value.is_safe() => "Markup",
        ValueKind::String => "str",
        ValueKind::Seq if value.is_tuple() => "tuple",
        ValueKind::Seq => "list",
        ValueKind::Map => "dict",
        _ if value.downcast_object_ref::<Generator>().is_some() => "generator",
        _ if value.downcast_object_ref::<Range>().is_some() => "range",
        _ if value.downcast_object_ref::<Namespace>().is_some() => "Namespace",
        _ => value.downcast_object_ref::<View>().map_or("function", |view| view.name),
    }
}
