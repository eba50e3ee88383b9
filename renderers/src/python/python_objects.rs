//! Values that Python has and JSON has not.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::Value;
use minijinja::value::{Object, ObjectRepr, ValueKind};

use crate::python::budget::{Budget, Exhausted, VALUE_DEPTH};
use crate::python::python_text::as_object;

/// Says how an object that only templates see is written where nothing better is known.
macro_rules! plain_object {
    ($type:ty, $text:literal) => {
        impl Object for $type {
            fn repr(self: &Arc<Self>) -> ObjectRepr {
                ObjectRepr::Plain
            }

            fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str($text)
            }
        }
    };
}

/// What `dict.items()` and its like give: a sequence without places.
#[derive(Debug)]
pub(crate) struct View {
    /// As Python writes it: `dict_items`.
    pub(crate) name: &'static str,
    pub(crate) items: Vec<Value>,
}

/// What filters such as `map` give: items that can be gone through once.
#[derive(Debug)]
pub(crate) struct Generator(Mutex<VecDeque<Value>>);

/// What `range()` gives.
#[derive(Debug)]
pub(crate) struct Range {
    pub(crate) bounds: [i128; 3],
    pub(crate) items: Vec<Value>,
}

/// What `namespace()` gives: fields that a template may set.
#[derive(Debug)]
pub(crate) struct Namespace(pub(crate) Mutex<Vec<(Box<str>, Value)>>);

/// A method that is looked up and not called yet.
#[derive(Debug)]
pub(crate) struct BoundMethod {
    pub(crate) value: Value,
    pub(crate) name: Box<str>,
}

/// A function that every template has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GlobalFunction(pub(crate) &'static str);

/// What `cycler()` gives.
#[derive(Debug)]
pub(crate) struct Cycler {
    pub(crate) items: Vec<Value>,
    pub(crate) at: AtomicUsize,
}

/// What `joiner()` gives.
#[derive(Debug)]
pub(crate) struct Joiner {
    pub(crate) separator: Value,
    pub(crate) calls: AtomicUsize,
}

/// A macro, and the variables that stood around it in loops and other macros.
#[derive(Debug)]
pub(crate) struct MacroValue {
    pub(crate) index: usize,
    pub(crate) captured: Vec<(usize, Value)>,
}

/// A loop that runs.
#[derive(Debug)]
pub(crate) struct LoopState {
    pub(crate) items: Vec<Value>,
    pub(crate) index: AtomicUsize,
    /// How many recursive loops it lies in.
    pub(crate) depth: usize,
    /// Which loop of the template it is, where it may call itself.
    pub(crate) recursive: Option<usize>,
    /// What `changed` was called with last.
    pub(crate) last_seen: Mutex<Option<Vec<Value>>>,
}

/// A loop as a value.
#[derive(Debug)]
pub(crate) struct LoopValue(pub(crate) Arc<LoopState>);

plain_object!(MacroValue, "<Macro>");
plain_object!(LoopValue, "<LoopContext>");
plain_object!(View, "dict_view");
plain_object!(Generator, "<generator object>");
plain_object!(Range, "range");
plain_object!(Namespace, "<Namespace>");
plain_object!(BoundMethod, "<built-in method>");
plain_object!(GlobalFunction, "<function>");
plain_object!(Cycler, "<Cycler>");
plain_object!(Joiner, "<Joiner>");

impl Generator {
    /// A generator of these items.
    pub(crate) fn of(items: Vec<Value>) -> Value {
        Value::from_object(Self(Mutex::new(items.into())))
    }

    /// The next item.
    pub(crate) fn next(&self) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// All items that are left.
    pub(crate) fn rest(&self) -> Vec<Value> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }
}

impl Namespace {
    /// The fields as they are now.
    pub(crate) fn fields(&self) -> Vec<(Box<str>, Value)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Value> {
        let fields = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fields.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.clone())
    }

    pub(crate) fn set(&self, name: &str, value: Value) {
        let mut fields = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match fields.iter_mut().find(|(known, _)| **known == *name) {
            Some(known) => known.1 = value,
            None => fields.push((name.into(), value)),
        }
    }
}

impl Cycler {
    pub(crate) fn current(&self) -> Value {
        self.items.get(self.at.load(Ordering::Relaxed)).cloned().unwrap_or_default()
    }

    pub(crate) fn advance(&self) -> Value {
        let current = self.current();
        self.at.store((self.at.load(Ordering::Relaxed) + 1) % self.items.len().max(1), Ordering::Relaxed);
        current
    }
}

/// The items of a list.
pub(crate) fn as_list(value: &Value) -> Option<&[Value]> {
    value.downcast_object_ref::<Vec<Value>>().map(Vec::as_slice)
}

/// The items of a list or of a tuple.
pub(crate) fn as_sequence(value: &Value) -> Option<Cow<'_, [Value]>> {
    if let Some(items) = as_list(value) {
        return Some(items.into());
    }
    (value.kind() == ValueKind::Seq).then(|| value.try_iter().into_iter().flatten().collect())
}

/// The keys and values of a dict.
pub(crate) fn as_dict(value: &Value) -> Option<Vec<(Value, Value)>> {
    if let Some(object) = as_object(value) {
        return Some(object.fields().iter().map(|(name, value)| (name.value(), value.clone())).collect());
    }
    let keys = (value.kind() == ValueKind::Map).then(|| value.try_iter().into_iter().flatten())?;
    Some(keys.map(|key| (key.clone(), value.get_item(&key).unwrap_or_default())).collect())
}

/// A tuple.
pub(crate) fn tuple(items: Vec<Value>) -> Value {
    Value::from(minijinja::value::Tuple::new(items))
}

/// The values that lie within a value; `None` where none can.
pub(crate) fn parts_of(value: &Value) -> Option<Cow<'_, [Value]>> {
    if value.as_str().is_some() {
        return None;
    }
    if let Some(items) = as_sequence(value) {
        return Some(items);
    }
    if let Some(object) = as_object(value) {
        return Some(object.fields().iter().map(|(_, value)| value.clone()).collect());
    }
    if value.kind() == ValueKind::Map {
        return Some(as_dict(value)?.into_iter().flat_map(|(key, value)| [key, value]).collect());
    }
    if let Some(view) = value.downcast_object_ref::<View>() {
        return Some(view.items.as_slice().into());
    }
    if let Some(namespace) = value.downcast_object_ref::<Namespace>() {
        let fields = namespace.0.lock().unwrap_or_else(PoisonError::into_inner);
        return Some(fields.iter().map(|(_, value)| value.clone()).collect());
    }
    if let Some(method) = value.downcast_object_ref::<BoundMethod>() {
        return Some(std::slice::from_ref(&method.value).into());
    }
    if let Some(cycler) = value.downcast_object_ref::<Cycler>() {
        return Some(cycler.items.as_slice().into());
    }
    if let Some(joiner) = value.downcast_object_ref::<Joiner>() {
        return Some(std::slice::from_ref(&joiner.separator).into());
    }
    if let Some(declared) = value.downcast_object_ref::<MacroValue>() {
        return Some(declared.captured.iter().map(|(_, value)| value.clone()).collect());
    }
    if let Some(LoopValue(state)) = value.downcast_object_ref::<LoopValue>() {
        return Some(state.items.as_slice().into());
    }
    if let Some(Generator(items)) = value.downcast_object_ref::<Generator>() {
        return Some(items.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect());
    }
    None
}

/// Refuses a value in which others lie too deep; what is made of deep values is written, compared and dropped by
/// recursion.
pub(crate) fn check_depth(value: &Value, budget: &Budget<'_>) -> Result<(), Exhausted> {
    deep(value, budget, 0)
}

/// How deep JSON may be nested that is read here.
const JSON_DEPTH: usize = 128;

fn deep(value: &Value, budget: &Budget<'_>, depth: usize) -> Result<(), Exhausted> {
    // What came as JSON is no deeper than the reader of JSON allows.
    let is_json = as_object(value).is_some();
    if depth + if is_json { JSON_DEPTH } else { 0 } > VALUE_DEPTH {
        return Err(Exhausted::Depth);
    }
    if is_json {
        return Ok(());
    }
    let Some(parts) = parts_of(value) else { return Ok(()) };
    budget.step(1 + parts.len())?;
    parts.iter().try_for_each(|part| deep(part, budget, depth + 1))
}

/// The bytes of what came as JSON: of its texts, and some for every other value.
pub(crate) fn size_of_input(value: &Value) -> u64 {
    if let Some(text) = value.as_str() {
        return text.len() as u64 + 8;
    }
    let inner: u64 = match (as_object(value), as_list(value)) {
        (Some(object), _) => {
            object.fields().iter().map(|(name, value)| name.as_str().len() as u64 + size_of_input(value)).sum()
        }
        (_, Some(items)) => items.iter().map(size_of_input).sum(),
        _ => 0,
    };
    inner + 8
}
