//! Functions that every template has.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::Value;

use crate::python::budget::Budget;
use crate::python::library::arguments::{CallArguments, text, whole};
use crate::python::python_error::{PythonError, raise};
use crate::python::python_objects::{Cycler, Joiner, Namespace, Range, as_dict, as_sequence, check_depth};
use crate::python::python_ops::{check_hashable, items};
use crate::python::python_repr::python_str_within;
use crate::python::python_time::{strftime, unix_seconds};
use crate::python::python_values::from_integer;

/// The names of all functions.
pub(crate) const FUNCTIONS: [&str; 8] =
    ["range", "dict", "lipsum", "cycler", "joiner", "namespace", "raise_exception", "strftime_now"];

/// Jinja's sandbox refuses longer ranges.
const LONGEST_RANGE: i128 = 100_000;

/// Calls a function of [`FUNCTIONS`]. `now` is the time that the template sees, in seconds since 1970.
pub(crate) fn call_function(
    name: &str,
    arguments: &CallArguments,
    now: Option<i64>,
    budget: &Budget<'_>,
) -> Result<Value, PythonError> {
    match name {
        "range" => range(arguments, budget),
        "dict" => dict(arguments, budget),
        "namespace" => {
            let fields = as_dict(&dict(arguments, budget)?).unwrap_or_default();
            let named = fields.into_iter().filter_map(|(name, value)| Some((name.as_str()?.into(), value)));
            Ok(Value::from_object(Namespace(Mutex::new(named.collect()))))
        }
        "cycler" if arguments.positional.is_empty() => raise("at least one item has to be provided"),
        "cycler" => {
            budget.make_items(arguments.positional.len())?;
            let cycler = Cycler { items: arguments.positional.clone(), at: AtomicUsize::new(0) };
            checked(Value::from_object(cycler), budget)
        }
        "joiner" => {
            let [separator] = arguments.bind(name, ["sep"], 0)?;
            let separator = separator.cloned().unwrap_or_else(|| Value::from(", "));
            checked(Value::from_object(Joiner { separator, calls: AtomicUsize::new(0) }), budget)
        }
        "raise_exception" => {
            let [message] = arguments.bind(name, ["message"], 1)?;
            raise(python_str_within(message.unwrap_or(&Value::UNDEFINED), budget)?)
        }
        "strftime_now" => {
            let [format] = arguments.bind(name, ["format"], 1)?;
            let format = text(format.unwrap_or(&Value::UNDEFINED))?;
            budget.make(format.len().saturating_mul(16))?;
            match strftime(format, now.unwrap_or_else(unix_seconds)) {
                Some(text) => Ok(text.into()),
                None => raise(format!("strftime_now cannot write the format {format:?}")),
            }
        }
        // Words by chance would make another prompt each time.
        other => raise(format!("the function `{other}` is not supported: its text is made by chance")),
    }
}

/// Calls what `joiner()` gave.
pub(crate) fn call_joiner(joiner: &Joiner) -> Value {
    match joiner.calls.fetch_add(1, Ordering::Relaxed) {
        0 => "".into(),
        _ => joiner.separator.clone(),
    }
}

/// A value that is refused where others lie too deep in it.
pub(crate) fn checked(value: Value, budget: &Budget<'_>) -> Result<Value, PythonError> {
    check_depth(&value, budget)?;
    Ok(value)
}

fn range(arguments: &CallArguments, budget: &Budget<'_>) -> Result<Value, PythonError> {
    if !arguments.named.is_empty() {
        return raise("range() takes no keyword arguments");
    }
    let [first, second, third] = arguments.bind("range", ["start", "stop", "step"], 1)?;
    let read = |value: Option<&Value>| value.map(whole).transpose();
    let (start, stop) = match (read(first)?.unwrap_or(0), read(second)?) {
        (stop, None) => (0, stop),
        (start, Some(stop)) => (start, stop),
    };
    let step = read(third)?.unwrap_or(1);
    if step == 0 {
        return raise("range() arg 3 must not be zero");
    }
    let distance = if step > 0 { stop.saturating_sub(start) } else { start.saturating_sub(stop) }.max(0);
    let size = step.saturating_abs();
    let count = distance / size + i128::from(distance % size != 0);
    if count > LONGEST_RANGE {
        return raise(format!("range too big; the sandbox blocks ranges larger than {LONGEST_RANGE}"));
    }
    let count = usize::try_from(count).unwrap_or(0);
    budget.make_items(count)?;
    let items = (0..count as i128).map(|place| from_integer(start + place * step)).collect();
    Ok(Value::from_object(Range { bounds: [start, stop, step], items }))
}

fn dict(arguments: &CallArguments, budget: &Budget<'_>) -> Result<Value, PythonError> {
    let mut entries = Vec::new();
    match &*arguments.positional {
        [] => {}
        [from] => match as_dict(from) {
            Some(own) => entries = own,
            None => {
                for pair in &*items(from, budget)? {
                    let pair = as_sequence(pair).unwrap_or_default();
                    let [key, value] = &*pair else { return raise("dict() needs pairs of a key and a value") };
                    check_hashable(key, budget)?;
                    entries.push((key.clone(), value.clone()));
                }
            }
        },
        _ => return raise("dict expected at most 1 argument"),
    }
    entries.extend(arguments.named.iter().map(|(name, value)| (Value::from(&**name), value.clone())));
    budget.make_items(entries.len().saturating_mul(3))?;
    checked(Value::from_pairs(entries), budget)
}
