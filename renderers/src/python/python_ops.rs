//! What Python's operators do.

use std::borrow::Cow;
use std::cmp::Ordering;

use minijinja::Value;
use minijinja::value::ValueKind;

use crate::python::budget::{Budget, Exhausted};
use crate::python::python_error::{PythonError, raise};
use crate::python::python_format::percent;
use crate::python::python_markup::escaped;
use crate::python::python_objects::{
    BoundMethod, Cycler, Generator, GlobalFunction, Joiner, Namespace, Range, View, as_dict, as_list, as_sequence,
    tuple,
};
use crate::python::python_repr::python_str_within;
use crate::python::python_text::{JsonObject, as_float, as_object, from_float};
use crate::python::python_values::{Number, from_integer, integer, number, type_name};

type Outcome<T> = Result<T, PythonError>;

/// Whether a value counts as true.
pub(crate) fn truth(value: &Value) -> bool {
    if let Some(items) = as_list(value) {
        return !items.is_empty();
    }
    if let Some(float) = as_float(value) {
        return float != 0.0;
    }
    if let Some(View { items, .. }) = value.downcast_object_ref() {
        return !items.is_empty();
    }
    if let Some(Range { items, .. }) = value.downcast_object_ref() {
        return !items.is_empty();
    }
    value.kind() == ValueKind::Plain || value.is_true()
}

/// The items that a value is gone through by.
pub(crate) fn items<'v>(value: &'v Value, budget: &Budget<'_>) -> Outcome<Cow<'v, [Value]>> {
    let items: Cow<'v, [Value]> = if let Some(text) = value.as_str() {
        budget.make_items(text.len())?;
        text.chars().map(Value::from).collect()
    } else if let Some(items) = as_sequence(value) {
        items
    } else if let Some(object) = as_object(value) {
        object.fields().iter().map(|(name, _)| name.value()).collect()
    } else if let Some(View { items, .. }) = value.downcast_object_ref::<View>() {
        items.as_slice().into()
    } else if let Some(Range { items, .. }) = value.downcast_object_ref() {
        items.as_slice().into()
    } else if let Some(generator) = value.downcast_object_ref::<Generator>() {
        generator.rest().into()
    } else if value.is_undefined() {
        Cow::Borrowed(&[])
    } else if let Some(entries) = as_dict(value) {
        entries.into_iter().map(|(key, _)| key).collect()
    } else {
        return raise(format!("'{}' object is not iterable", type_name(value)));
    };
    budget.step(items.len())?;
    Ok(items)
}

/// Python's `len()`; `None` where there is none.
pub(crate) fn length(value: &Value) -> Option<usize> {
    if let Some(text) = value.as_str() {
        return Some(text.chars().count());
    }
    if let Some(View { items, .. }) = value.downcast_object_ref() {
        return Some(items.len());
    }
    if let Some(Range { items, .. }) = value.downcast_object_ref() {
        return Some(items.len());
    }
    match value.kind() {
        ValueKind::Undefined => Some(0),
        ValueKind::Seq | ValueKind::Map => value.len(),
        _ => None,
    }
}

/// Python's `==`.
pub(crate) fn equal(left: &Value, right: &Value, budget: &Budget<'_>) -> Result<bool, Exhausted> {
    budget.step(1)?;
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        if left.len() == right.len() {
            budget.look_through(left)?;
        }
        return Ok(left == right);
    }
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return Ok(match (left, right) {
            (Number::Integer(left), Number::Integer(right)) => left == right,
            (left, right) => left.float() == right.float(),
        });
    }
    if let (Some(left_items), Some(right_items)) = (as_sequence(left), as_sequence(right)) {
        if left.is_tuple() != right.is_tuple() || left_items.len() != right_items.len() {
            return Ok(false);
        }
        for (left, right) in left_items.iter().zip(&*right_items) {
            if !equal(left, right, budget)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if let (Some(left), Some(right)) = (as_dict(left), as_dict(right)) {
        return equal_entries(&left, &right, budget);
    }
    if let (Some(left), Some(right)) = (left.downcast_object_ref::<Range>(), right.downcast_object_ref::<Range>()) {
        return Ok(left.items.len() == right.items.len()
            && left.items.first() == right.items.first()
            && left.items.last() == right.items.last());
    }
    if let (Some(left), Some(right)) = (left.downcast_object_ref::<View>(), right.downcast_object_ref::<View>()) {
        return match left.name == right.name && left.items.len() == right.items.len() && left.name != "dict_values" {
            true => {
                left.items.iter().try_fold(true, |all, item| Ok(all && position(&right.items, item, budget)?.is_some()))
            }
            false => Ok(false),
        };
    }
    Ok(match (left.kind(), right.kind()) {
        (ValueKind::None, ValueKind::None) | (ValueKind::Undefined, ValueKind::Undefined) => true,
        _ => is_same(left, right),
    })
}

fn equal_entries(left: &[(Value, Value)], right: &[(Value, Value)], budget: &Budget<'_>) -> Result<bool, Exhausted> {
    if left.len() != right.len() {
        return Ok(false);
    }
    for (key, item) in left {
        let mut same = None;
        for (other, value) in right {
            if equal(key, other, budget)? {
                same = Some(value);
                break;
            }
        }
        let Some(value) = same else { return Ok(false) };
        if !equal(item, value, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Python's `is`, as far as values have an identity.
pub(crate) fn is_same(left: &Value, right: &Value) -> bool {
    fn same<T: 'static>(left: &Value, right: &Value) -> Option<bool> {
        Some(std::ptr::eq(left.downcast_object_ref::<T>()?, right.downcast_object_ref::<T>()?))
    }
    if left.as_object().is_none() && right.as_object().is_none() {
        return left.kind() == right.kind() && number(left).is_some() == number(right).is_some() && left == right;
    }
    if let (Some(left), Some(right)) =
        (left.downcast_object_ref::<BoundMethod>(), right.downcast_object_ref::<BoundMethod>())
    {
        return left.name == right.name && is_same(&left.value, &right.value);
    }
    if let (Some(left), Some(right)) =
        (left.downcast_object_ref::<GlobalFunction>(), right.downcast_object_ref::<GlobalFunction>())
    {
        return left == right;
    }
    let identities = [
        same::<Vec<Value>>,
        same::<minijinja::value::Tuple>,
        same::<JsonObject>,
        same::<View>,
        same::<Range>,
        same::<Generator>,
        same::<Namespace>,
        same::<Cycler>,
        same::<Joiner>,
    ];
    identities.iter().any(|same| same(left, right) == Some(true))
}

/// The place of an item that is equal.
pub(crate) fn position(items: &[Value], wanted: &Value, budget: &Budget<'_>) -> Result<Option<usize>, Exhausted> {
    for (place, item) in items.iter().enumerate() {
        if equal(item, wanted, budget)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Python's `<` and its like.
pub(crate) fn compare(left: &Value, right: &Value, budget: &Budget<'_>) -> Outcome<Option<Ordering>> {
    budget.step(1)?;
    if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
        budget.look_through(if left.len() < right.len() { left } else { right })?;
        return Ok(Some(left.cmp(right)));
    }
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return Ok(match (left, right) {
            (Number::Integer(left), Number::Integer(right)) => Some(left.cmp(&right)),
            (left, right) => left.float().partial_cmp(&right.float()),
        });
    }
    if let (Some(left_items), Some(right_items)) = (as_sequence(left), as_sequence(right))
        && left.is_tuple() == right.is_tuple()
    {
        for (left, right) in left_items.iter().zip(&*right_items) {
            if !equal(left, right, budget)? {
                return compare(left, right, budget);
            }
        }
        return Ok(Some(left_items.len().cmp(&right_items.len())));
    }
    if left.is_undefined() || right.is_undefined() {
        return raise("an undefined value cannot be compared");
    }
    raise(format!("'<' not supported between instances of '{}' and '{}'", type_name(left), type_name(right)))
}

/// Python's `in`.
pub(crate) fn contains(container: &Value, wanted: &Value, budget: &Budget<'_>) -> Outcome<bool> {
    budget.step(1)?;
    if let Some(text) = container.as_str() {
        let Some(wanted) = wanted.as_str() else {
            return raise(format!("'in <string>' requires string as left operand, not {}", type_name(wanted)));
        };
        budget.look_through(text)?;
        return Ok(text.contains(wanted));
    }
    if let Some(object) = as_object(container) {
        check_hashable(wanted, budget)?;
        return Ok(wanted.as_str().is_some_and(|name| object.field(name).is_some()));
    }
    if container.kind() == ValueKind::Map {
        check_hashable(wanted, budget)?;
        return Ok(dict_item(container, wanted, budget)?.is_some());
    }
    if container.is_undefined() {
        return Ok(false);
    }
    if matches!(container.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number) || number(container).is_some()
    {
        return raise(format!("argument of type '{}' is not iterable", type_name(container)));
    }
    Ok(position(&items(container, budget)?, wanted, budget)?.is_some())
}

/// Refuses what cannot be the key of a dict.
pub(crate) fn check_hashable(key: &Value, budget: &Budget<'_>) -> Outcome<()> {
    match key.kind() {
        ValueKind::Seq if key.is_tuple() => {
            let items = as_sequence(key).unwrap_or_default();
            budget.step(items.len())?;
            items.iter().try_for_each(|item| check_hashable(item, budget))
        }
        ValueKind::Seq | ValueKind::Map => raise(format!("unhashable type: '{}'", type_name(key))),
        _ => Ok(()),
    }
}

/// The value of a dict's key.
pub(crate) fn dict_item(dict: &Value, key: &Value, budget: &Budget<'_>) -> Outcome<Option<Value>> {
    if let Some(object) = as_object(dict) {
        budget.step(1)?;
        return Ok(key.as_str().and_then(|name| object.field(name)).cloned());
    }
    if key.as_str().is_some() {
        return Ok(dict.get_item(key).ok().filter(|item| !item.is_undefined()));
    }
    for (known, item) in as_dict(dict).unwrap_or_default() {
        if equal(&known, key, budget)? {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

/// Python's `+`.
pub(crate) fn add(left: &Value, right: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    if let (Some(before), Some(after)) = (left.as_str(), right.as_str()) {
        budget.make(before.len().saturating_add(after.len()))?;
        return Ok(match left.is_safe() || right.is_safe() {
            true => Value::from_safe_string([&*escaped(left, budget)?, &*escaped(right, budget)?].concat()),
            false => [before, after].concat().into(),
        });
    }
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return arithmetic(left, right, i128::checked_add, |left, right| left + right);
    }
    if let (Some(before), Some(after)) = (as_sequence(left), as_sequence(right))
        && left.is_tuple() == right.is_tuple()
    {
        budget.make_items(before.len().saturating_add(after.len()))?;
        let sum = before.iter().chain(&*after).cloned().collect::<Vec<_>>();
        return Ok(if left.is_tuple() { tuple(sum) } else { Value::from(sum) });
    }
    unsupported("+", left, right)
}

fn unsupported<T>(operator: &str, left: &Value, right: &Value) -> Outcome<T> {
    if left.is_undefined() || right.is_undefined() {
        return raise(format!("an undefined value has no `{operator}`"));
    }
    raise(format!("unsupported operand type(s) for {operator}: '{}' and '{}'", type_name(left), type_name(right)))
}

fn arithmetic(
    left: Number,
    right: Number,
    integers: fn(i128, i128) -> Option<i128>,
    floats: fn(f64, f64) -> f64,
) -> Outcome<Value> {
    match (left, right) {
        (Number::Integer(left), Number::Integer(right)) => match integers(left, right) {
            Some(result) => Ok(from_integer(result)),
            None => raise("an integer has more digits than are kept here"),
        },
        (left, right) => Ok(from_float(floats(left.float(), right.float()))),
    }
}

/// Python's `-`.
pub(crate) fn subtract(left: &Value, right: &Value) -> Outcome<Value> {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => arithmetic(left, right, i128::checked_sub, |left, right| left - right),
        _ => unsupported("-", left, right),
    }
}

/// Python's `*`.
pub(crate) fn multiply(left: &Value, right: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return arithmetic(left, right, i128::checked_mul, |left, right| left * right);
    }
    let (repeated, count) = match (integer(left), integer(right)) {
        (None, Some(count)) => (left, count),
        (Some(count), None) => (right, count),
        _ => return unsupported("*", left, right),
    };
    let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
    if let Some(text) = repeated.as_str() {
        budget.make(text.len().saturating_mul(count))?;
        let text = if text.is_empty() { String::new() } else { text.repeat(count) };
        return Ok(if repeated.is_safe() { Value::from_safe_string(text) } else { text.into() });
    }
    let Some(items) = as_sequence(repeated) else { return unsupported("*", left, right) };
    budget.make_items(items.len().saturating_mul(count))?;
    let count = if items.is_empty() { 0 } else { count };
    let items: Vec<Value> = std::iter::repeat_n(&*items, count).flatten().cloned().collect();
    Ok(if repeated.is_tuple() { tuple(items) } else { Value::from(items) })
}

/// Python's `/`.
pub(crate) fn divide(left: &Value, right: &Value) -> Outcome<Value> {
    match (number(left), number(right)) {
        (Some(_), Some(right)) if right.float() == 0.0 => raise("division by zero"),
        (Some(left), Some(right)) => Ok(from_float(left.float() / right.float())),
        _ => unsupported("/", left, right),
    }
}

/// Python's `//`.
pub(crate) fn floor_divide(left: &Value, right: &Value) -> Outcome<Value> {
    match (number(left), number(right)) {
        (Some(_), Some(right)) if right.float() == 0.0 => raise("integer division or modulo by zero"),
        (Some(Number::Integer(left)), Some(Number::Integer(right))) => {
            let quotient = left.checked_div(right).ok_or_else(|| PythonError::new("an integer is too large"))?;
            let is_below = left % right != 0 && (left < 0) != (right < 0);
            Ok(from_integer(quotient - i128::from(is_below)))
        }
        (Some(left), Some(right)) => Ok(from_float((left.float() / right.float()).floor())),
        _ => unsupported("//", left, right),
    }
}

/// Python's `%`, of numbers and of texts.
pub(crate) fn remainder(left: &Value, right: &Value, budget: &Budget<'_>) -> Outcome<Value> {
    if let Some(format) = left.as_str() {
        return Ok(percent(format, right, budget)?.into());
    }
    match (number(left), number(right)) {
        (Some(_), Some(right)) if right.float() == 0.0 => raise("integer modulo by zero"),
        (Some(Number::Integer(left)), Some(Number::Integer(right))) => {
            let rest = left.checked_rem(right).unwrap_or(0);
            Ok(from_integer(if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest }))
        }
        (Some(left), Some(right)) => {
            let (left, right) = (left.float(), right.float());
            let rest = left % right;
            Ok(from_float(match rest {
                rest if rest != 0.0 && (rest < 0.0) != (right < 0.0) => rest + right,
                0.0 => 0.0f64.copysign(right),
                rest => rest,
            }))
        }
        _ => unsupported("%", left, right),
    }
}

/// Python's `**`.
pub(crate) fn power(left: &Value, right: &Value) -> Outcome<Value> {
    match (number(left), number(right)) {
        (Some(Number::Integer(base)), Some(Number::Integer(exponent))) if exponent >= 0 => {
            let small = match base {
                0 | 1 => Some(if exponent == 0 { 1 } else { base }),
                -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
                base => u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent)),
            };
            small.map(from_integer).ok_or_else(|| PythonError::new("an integer has more digits than are kept here"))
        }
        (Some(left), Some(right)) => {
            let (left, right) = (left.float(), right.float());
            if left == 0.0 && right < 0.0 {
                return raise("0.0 cannot be raised to a negative power");
            }
            if left < 0.0 && right.fract() != 0.0 {
                return raise("a power is a complex number");
            }
            let result = left.powf(right);
            if result.is_infinite() && left.is_finite() && right.is_finite() {
                return raise("a power is too large");
            }
            Ok(from_float(result))
        }
        _ => unsupported("** or pow()", left, right),
    }
}

/// Python's `-` before one operand.
pub(crate) fn negate(operand: &Value) -> Outcome<Value> {
    match number(operand) {
        Some(Number::Integer(integer)) => match integer.checked_neg() {
            Some(negative) => Ok(from_integer(negative)),
            None => raise("an integer is too large"),
        },
        Some(Number::Float(float)) => Ok(from_float(-float)),
        None => raise(format!("bad operand type for unary -: '{}'", type_name(operand))),
    }
}

/// Jinja's `~`, which escapes nothing.
pub(crate) fn concatenate(parts: &[Value], budget: &Budget<'_>) -> Outcome<Value> {
    let mut out = String::new();
    for part in parts {
        let text = python_str_within(part, budget)?;
        budget.make(text.len())?;
        budget.hold(out.len() + text.len())?;
        out.push_str(&text);
    }
    Ok(out.into())
}

/// Python's `a[start:stop:step]`.
pub(crate) fn slice(value: &Value, bounds: [&Value; 3], budget: &Budget<'_>) -> Outcome<Value> {
    if value.kind() == ValueKind::Map {
        return raise("unhashable type: 'slice'");
    }
    let is_sliced = matches!(value.kind(), ValueKind::String | ValueKind::Seq);
    if value.is_undefined() || !(is_sliced || value.downcast_object_ref::<Range>().is_some()) {
        return raise(format!("'{}' object is not subscriptable", type_name(value)));
    }
    let mut read = [None; 3];
    for (read, bound) in read.iter_mut().zip(bounds) {
        *read = match (bound.is_none(), integer(bound)) {
            (true, _) => None,
            (false, Some(bound)) => Some(bound),
            (false, None) => return raise("slice indices must be integers or None"),
        };
    }
    let [start, stop, step] = read;
    let step = step.unwrap_or(1);
    if step == 0 {
        return raise("slice step cannot be zero");
    }
    if let Some(text) = value.as_str() {
        budget.step(text.len() / 16)?;
        budget.make(text.len())?;
        // Most slices are of ASCII, or go on in one piece.
        let characters: Vec<char> = text.chars().collect();
        let places = places(characters.len(), start, stop, step);
        let text: String = places.map(|place| characters[place]).collect();
        return Ok(if value.is_safe() { Value::from_safe_string(text) } else { text.into() });
    }
    if let Some(items) = as_sequence(value) {
        let places = places(items.len(), start, stop, step);
        let items: Vec<Value> = places.map(|place| items[place].clone()).collect();
        budget.make_items(items.len())?;
        return Ok(if value.is_tuple() { tuple(items) } else { Value::from(items) });
    }
    if let Some(Range { items, bounds }) = value.downcast_object_ref() {
        let kept: Vec<Value> = places(items.len(), start, stop, step).map(|place| items[place].clone()).collect();
        budget.make_items(kept.len())?;
        let [first, _, stride] = *bounds;
        let start = kept.first().and_then(integer).unwrap_or(first);
        let stride = stride.saturating_mul(step);
        let stop = start.saturating_add(stride.saturating_mul(kept.len() as i128));
        return Ok(Value::from_object(Range { bounds: [start, stop, stride], items: kept }));
    }
    Ok(Value::UNDEFINED)
}

/// The places that a slice takes, as Python's `slice.indices` has them.
pub(crate) fn places(
    length: usize,
    start: Option<i128>,
    stop: Option<i128>,
    step: i128,
) -> impl Iterator<Item = usize> {
    let length = length as i128;
    let (lowest, highest) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clamped = |bound: i128| {
        let bound = if bound < 0 { bound.saturating_add(length) } else { bound };
        bound.clamp(lowest, highest)
    };
    let (first, end) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
    let (start, stop) = (start.map_or(first, clamped), stop.map_or(end, clamped));
    let goes_on = move |place: &i128| if step > 0 { *place < stop } else { *place > stop };
    std::iter::successors(Some(start).filter(goes_on), move |place| place.checked_add(step).filter(goes_on))
        .filter_map(|place| usize::try_from(place).ok())
}
