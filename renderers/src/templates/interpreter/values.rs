//! How a template's expressions are evaluated.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use minijinja::Value;

use crate::python::library::arguments::CallArguments;
use crate::python::library::{filters, tests};
use crate::python::python_attributes::{attribute, item};
use crate::python::python_error::raise;
use crate::python::python_objects::{LoopState, LoopValue, MacroValue, as_list, check_depth, tuple};
use crate::python::python_ops::{self, check_hashable, compare, concatenate, contains, equal};
use crate::python::python_repr::python_str_within;
use crate::python::python_text::as_object;
use crate::python::python_values::from_integer;
use crate::templates::interpreter::program::{Arguments, Comparison, Expression, LoopField, Macro, Operator};
use crate::templates::interpreter::run::{Outcome, Run};

impl<'p> Run<'p> {
    /// The value that stands somewhere already: that of a variable, or a field of one. `None` says nothing.
    pub(super) fn place<'r>(&'r self, expression: &'p Expression) -> Option<&'r Value> {
        match expression {
            Expression::Constant(value) => Some(value),
            Expression::Variable(name) => Some(self.variable(*name)),
            Expression::Field(base, name) => Some(as_object(self.place(base)?)?.field(name).unwrap_or(&UNDEFINED)),
            Expression::Item(base, key) => {
                let (base, key) = (self.place(base)?, self.place(key)?);
                match (as_object(base), key.as_str()) {
                    (Some(fields), Some(name)) => fields.field(name),
                    (None, None) => as_list(base)?.get(usize::try_from(integer(key)?).ok()?),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    pub(super) fn value<'r>(&'r self, expression: &'p Expression) -> Outcome<Cow<'r, Value>> {
        let budget = self.budget();
        budget.step(1)?;
        let owned = match expression {
            Expression::Constant(value) => return Ok(Cow::Borrowed(value)),
            Expression::Variable(name) => return Ok(Cow::Borrowed(self.variable(*name))),
            Expression::Field(base, name) | Expression::Attribute(base, name) => match self.place(expression) {
                Some(value) => return Ok(Cow::Borrowed(value)),
                None => self.field(base, name)?,
            },
            Expression::Item(base, key) => match self.place(expression) {
                Some(value) => return Ok(Cow::Borrowed(value)),
                None => {
                    let value = self.defined(base, || "items".to_owned())?;
                    item(&value, &*self.value(key)?, budget)?
                }
            },
            Expression::Slice(parts) => self.slice(parts)?,
            Expression::Either(parts) => {
                let [test, then, otherwise] = &**parts;
                let chosen = if self.truth(test)? { then } else { otherwise };
                return self.value(chosen);
            }
            Expression::And(left, right) | Expression::Or(left, right) => {
                let left = self.value(left)?;
                let decides = python_ops::truth(&left) == matches!(expression, Expression::Or(..));
                return if decides { Ok(left) } else { self.value(right) };
            }
            Expression::LoopValue => {
                let state = Arc::clone(self.innermost()?);
                let value = Value::from_object(LoopValue(state));
                check_depth(&value, budget)?;
                value
            }
            Expression::Loop(field) => loop_field(self.innermost()?, *field),
            Expression::Captured => self.captured.last().cloned().unwrap_or_default(),
            Expression::Join(texts) => self.join(texts)?,
            Expression::Concatenate(parts) => concatenate(&self.values(parts)?, budget)?,
            Expression::Binary(operator, left, right) => self.binary(*operator, left, right)?,
            Expression::Compare(first, others) => self.compare(first, others)?.into(),
            Expression::Not(operand) => (!self.truth(operand)?).into(),
            Expression::Negate(operand) => python_ops::negate(&*self.value(operand)?)?,
            Expression::Filter(name, arguments) if &**name == "generation_marks" => {
                self.marked(&self.arguments(arguments)?)?
            }
            Expression::Filter(name, arguments) => filters::apply(name, &self.arguments(arguments)?, budget)?,
            Expression::Test(name, arguments) => self.test(name, arguments)?.into(),
            Expression::Call(callee, arguments) => self.call(callee, arguments, None)?,
            Expression::Method(base, name, arguments) => self.method(base, name, arguments, None)?,
            Expression::List(items) => {
                budget.make_items(items.len())?;
                self.checked(Value::from(self.values(items)?))?
            }
            Expression::Tuple(items) => {
                budget.make_items(items.len())?;
                self.checked(tuple(self.values(items)?))?
            }
            Expression::Map(fields) => self.dict(fields)?,
        };
        Ok(Cow::Owned(owned))
    }

    /// A field of a loop, a macro or any other value, which is not in place.
    fn field(&self, base: &'p Expression, name: &str) -> Outcome<Value> {
        let value = self.defined(base, || format!("attribute `{name}`"))?;
        if let Some(LoopValue(state)) = value.downcast_object_ref::<LoopValue>() {
            return Ok(LoopField::named(name).map_or(Value::UNDEFINED, |field| loop_field(state, field)));
        }
        let declared = value.downcast_object_ref::<MacroValue>();
        match declared.and_then(|declared| macro_field(&self.program.macros[declared.index], name)) {
            Some(field) => Ok(field),
            None => attribute(&value, name, self.budget()),
        }
    }

    fn slice(&self, [of, start, stop, step]: &'p [Expression; 4]) -> Outcome<Value> {
        let value = self.defined(of, || "items".to_owned())?;
        let bounds = [&*self.value(start)?, &*self.value(stop)?, &*self.value(step)?];
        python_ops::slice(&value, bounds, self.budget())
    }

    /// A text between the marks of what the assistant generated, if there are any.
    fn marked(&self, arguments: &CallArguments) -> Outcome<Value> {
        let text = python_str_within(arguments.positional.first().unwrap_or(&UNDEFINED), self.budget())?;
        let marks = self.surroundings.marks;
        Ok(match marks.and_then(|marks| marks.split_at_checked(marks.len() / 2)) {
            Some((begin, end)) => format!("{begin}{text}{end}").into(),
            None => text.into(),
        })
    }

    fn dict(&self, fields: &'p [(Expression, Expression)]) -> Outcome<Value> {
        let budget = self.budget();
        budget.make_items(fields.len().saturating_mul(3))?;
        let mut entries: Vec<(Value, Value)> = Vec::new();
        for (key, value) in fields {
            let key = self.value(key)?.into_owned();
            check_hashable(&key, budget)?;
            let value = self.value(value)?.into_owned();
            let mut same = None;
            // Texts are found by the dict itself; of others, `1` and `true` are one.
            if key.as_str().is_none() {
                for (place, (known, _)) in entries.iter().enumerate() {
                    same = equal(known, &key, budget)?.then_some(place).or(same);
                }
            }
            match same {
                Some(place) => entries[place].1 = value,
                None => entries.push((key, value)),
            }
        }
        self.checked(Value::from_pairs(entries))
    }

    fn checked(&self, value: Value) -> Outcome<Value> {
        check_depth(&value, self.budget())?;
        Ok(value)
    }

    /// The value of something that `wanted` is to be taken of.
    pub(super) fn defined<'r>(
        &'r self,
        expression: &'p Expression,
        wanted: impl FnOnce() -> String,
    ) -> Outcome<Cow<'r, Value>> {
        let value = match self.place(expression) {
            Some(value) => Cow::Borrowed(value),
            None => self.value(expression)?,
        };
        match value.is_undefined() {
            true => raise(format!("{} is undefined and has no {}", self.described(expression), wanted())),
            false => Ok(value),
        }
    }

    /// An expression as a template's author spells it.
    pub(super) fn described(&self, expression: &Expression) -> String {
        match expression {
            Expression::Variable(name) => format!("`{}`", self.program.names[*name]),
            Expression::Field(base, name) | Expression::Attribute(base, name) => {
                format!("`{}.{name}`", self.described(base).trim_matches('`'))
            }
            Expression::Item(base, key) => match &**key {
                Expression::Constant(key) => {
                    let key = crate::python::python_repr::python_repr(key);
                    format!("`{}[{key}]`", self.described(base).trim_matches('`'))
                }
                _ => format!("an item of {}", self.described(base)),
            },
            _ => "a value".to_owned(),
        }
    }

    pub(super) fn values(&self, expressions: &'p [Expression]) -> Outcome<Vec<Value>> {
        expressions.iter().map(|expression| Ok(self.value(expression)?.into_owned())).collect()
    }

    fn join(&self, texts: &'p [Expression]) -> Outcome<Value> {
        let budget = self.budget();
        let mut values = texts.iter().map(|text| match self.place(text) {
            Some(value) => Ok(Cow::Borrowed(value)),
            None => self.value(text),
        });
        let Some(first) = values.next() else { return Ok("".into()) };
        let mut sum = first?;
        let mut text = String::new();
        // Plain texts are joined at once; the first that is none is added as Python adds it.
        for (place, value) in values.enumerate() {
            let value = value?;
            match (sum.as_str(), value.as_str()) {
                (Some(before), Some(after)) if !sum.is_safe() && !value.is_safe() => {
                    if place == 0 || text.is_empty() {
                        text = before.to_owned();
                    }
                    budget.make(after.len())?;
                    budget.hold(text.len() + after.len())?;
                    text.push_str(after);
                    sum = Cow::Owned("".into());
                    continue;
                }
                _ => {}
            }
            let before = if text.is_empty() { sum.into_owned() } else { std::mem::take(&mut text).into() };
            if before.is_undefined() || value.is_undefined() {
                let undefined = if before.is_undefined() { &texts[place] } else { &texts[place + 1] };
                return raise(format!("{} is undefined and cannot be added", self.described(undefined)));
            }
            sum = Cow::Owned(python_ops::add(&before, &value, budget)?);
        }
        Ok(if text.is_empty() { sum.into_owned() } else { text.into() })
    }

    fn binary(&self, operator: Operator, left: &'p Expression, right: &'p Expression) -> Outcome<Value> {
        let (left_value, right_value) = (self.value(left)?, self.value(right)?);
        let (of, by) = (&*left_value, &*right_value);
        if let (Operator::Add | Operator::Subtract, Some(of), Some(by)) = (operator, integer(of), integer(by)) {
            let (of, by) = (i128::from(of), i128::from(by));
            return Ok(from_integer(if operator == Operator::Add { of + by } else { of - by }));
        }
        let is_format = operator == Operator::Remainder && of.as_str().is_some();
        if of.is_undefined() || (by.is_undefined() && !is_format) {
            let undefined = if of.is_undefined() { left } else { right };
            return raise(format!("{} is undefined and cannot be calculated with", self.described(undefined)));
        }
        match operator {
            Operator::Add => python_ops::add(of, by, self.budget()),
            Operator::Subtract => python_ops::subtract(of, by),
            Operator::Multiply => python_ops::multiply(of, by, self.budget()),
            Operator::Divide => python_ops::divide(of, by),
            Operator::FloorDivide => python_ops::floor_divide(of, by),
            Operator::Remainder => python_ops::remainder(of, by, self.budget()),
            Operator::Power => python_ops::power(of, by),
        }
    }

    pub(super) fn compare(&self, first: &'p Expression, others: &'p [(Comparison, Expression)]) -> Outcome<bool> {
        let budget = self.budget();
        if let [(Comparison::Equal | Comparison::NotEqual, second)] = others
            && let (Some(left), Some(right)) = (self.place(first), self.place(second))
        {
            return Ok(equal(left, right, budget)? == matches!(others[0].0, Comparison::Equal));
        }
        let mut left = self.value(first)?;
        for (comparison, right) in others {
            let right = self.value(right)?;
            let ordered =
                |fits: fn(Ordering) -> bool| compare(&left, &right, budget).map(|ordering| ordering.is_some_and(fits));
            let holds = match comparison {
                Comparison::Equal => equal(&left, &right, budget)?,
                Comparison::NotEqual => !equal(&left, &right, budget)?,
                Comparison::Less => ordered(Ordering::is_lt)?,
                Comparison::LessOrEqual => ordered(Ordering::is_le)?,
                Comparison::Greater => ordered(Ordering::is_gt)?,
                Comparison::GreaterOrEqual => ordered(Ordering::is_ge)?,
                Comparison::In => contains(&right, &left, budget)?,
                Comparison::NotIn => !contains(&right, &left, budget)?,
            };
            if !holds {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    pub(super) fn test(&self, name: &str, arguments: &'p Arguments) -> Outcome<bool> {
        if let [tested] = &*arguments.positional
            && arguments.named.is_empty()
            && arguments.spread.is_empty()
            && arguments.spread_named.is_empty()
        {
            return match self.place(tested) {
                Some(tested) => tests::passes_alone(name, tested, self.budget()),
                None => tests::passes_alone(name, &*self.value(tested)?, self.budget()),
            };
        }
        tests::passes(name, &self.arguments(arguments)?, self.budget())
    }
}

static UNDEFINED: Value = Value::UNDEFINED;

/// What Jinja tells of a macro.
fn macro_field(declared: &Macro, name: &str) -> Option<Value> {
    Some(match name {
        "name" => (&*declared.name).into(),
        "arguments" => tuple(declared.parameters.iter().map(|(_, name, _)| (&**name).into()).collect()),
        "catch_varargs" => declared.varargs.is_some().into(),
        "catch_kwargs" => declared.kwargs.is_some().into(),
        "caller" => declared.caller.is_some().into(),
        _ => return None,
    })
}

fn loop_field(state: &LoopState, field: LoopField) -> Value {
    let (items, index) = (&state.items, state.index.load(Relaxed));
    let item = |index: Option<usize>| index.and_then(|index| items.get(index)).cloned().unwrap_or_default();
    match field {
        LoopField::Index => (index + 1).into(),
        LoopField::Index0 => index.into(),
        LoopField::ReverseIndex => (items.len() - index).into(),
        LoopField::ReverseIndex0 => (items.len() - index).saturating_sub(1).into(),
        LoopField::First => (index == 0).into(),
        LoopField::Last => (index + 1 == items.len()).into(),
        LoopField::Length => items.len().into(),
        LoopField::Depth => (state.depth + 1).into(),
        LoopField::Depth0 => state.depth.into(),
        LoopField::Previous => item(index.checked_sub(1)),
        LoopField::Next => item(Some(index + 1)),
    }
}

/// An integer; what is true or false counts as none.
fn integer(value: &Value) -> Option<i64> {
    value.is_integer().then(|| value.as_i64()).flatten()
}
