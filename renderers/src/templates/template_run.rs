//! How a [`TemplateProgram`] runs.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Enumerator, Kwargs, Object, ValueKind};
use minijinja::{Environment, Error, State, Value};

use crate::python::python_methods::call_method;
use crate::python::python_text::{as_object, python_str};
use crate::templates::template_program::{
    Arguments, Comparison, Expression, For, LoopField, Macro, Name, Statement, TemplateProgram,
};

/// Something that only the template engine can do, or say what is wrong with it.
#[derive(Debug)]
pub(crate) struct LeftToEngine;

impl From<Error> for LeftToEngine {
    fn from(_: Error) -> Self {
        Self
    }
}

/// What a text has room for from the start, in bytes: short prompts grow no more.
const CAPACITY: usize = 16 << 10;

/// How deep macros may call each other here.
const DEPTH: usize = 20;

type Outcome<T> = Result<T, LeftToEngine>;

impl TemplateProgram {
    /// What the template writes; filters, tests and functions are those of `environment`.
    pub(crate) fn run(&self, environment: &Environment<'_>, context: &Value) -> Outcome<String> {
        let mut engine = environment.empty_state();
        let variable = |name: &str| match context.get_attr(name)? {
            missing if missing.is_undefined() => Ok(engine.lookup(name).unwrap_or_default()),
            given => Ok(given),
        };
        let globals: Vec<Value> = self.names.iter().map(|name| variable(name)).collect::<Outcome<_>>()?;
        let mut run = Run {
            program: self,
            globals: globals.into(),
            locals: Vec::new(),
            frame: None,
            loops: Vec::new(),
            macros: vec![false; self.macros.len()],
            depth: 0,
        };
        let mut out = String::with_capacity(CAPACITY);
        run.statements(&self.body, &mut engine, &mut out)?;
        Ok(out)
    }
}

/// A template or a macro that runs.
struct Run<'p> {
    program: &'p TemplateProgram,
    /// Variables outside of loops and macros, by name.
    globals: Cow<'p, [Value]>,
    /// Variables of the frames, the innermost last.
    locals: Vec<(Name, Value)>,
    /// Where the variables of the innermost frame begin; `None` outside of loops and macros.
    frame: Option<usize>,
    loops: Vec<Loop>,
    /// Which macros are defined so far.
    macros: Vec<bool>,
    /// How many macros this one was called through.
    depth: usize,
}

struct Loop {
    items: Vec<Value>,
    index: usize,
}

/// How a statement ended.
#[derive(PartialEq)]
enum Flow {
    Onward,
    Continue,
    Break,
}

impl<'p> Run<'p> {
    fn statements(
        &mut self,
        statements: &'p [Statement],
        engine: &mut State<'_, '_>,
        out: &mut String,
    ) -> Outcome<Flow> {
        for statement in statements {
            let flow = self.statement(statement, engine, out)?;
            if flow != Flow::Onward {
                return Ok(flow);
            }
        }
        Ok(Flow::Onward)
    }

    fn statement(&mut self, statement: &'p Statement, engine: &mut State<'_, '_>, out: &mut String) -> Outcome<Flow> {
        match statement {
            Statement::Raw(text) => out.push_str(text),
            Statement::Emit(expression) => self.emit(expression, engine, out)?,
            Statement::If(condition, then, otherwise) => {
                let branch = if self.truth(condition, engine)? { then } else { otherwise };
                return self.statements(branch, engine, out);
            }
            Statement::For(repeated) => return self.repeat(repeated, engine, out),
            Statement::Set(names, expression) => {
                let value = self.value(expression, engine)?.into_owned();
                self.bind(names, value)?;
            }
            Statement::SetAttribute(name, attribute, expression) => {
                let value = self.value(expression, engine)?.into_owned();
                let namespace = self.variable(*name).downcast_object_ref::<Namespace>().ok_or(LeftToEngine)?;
                namespace.set(attribute, value);
            }
            Statement::SetBlock(name, body) => {
                let mut text = String::new();
                let flow = self.statements(body, engine, &mut text)?;
                self.set(*name, text.into());
                return Ok(flow);
            }
            Statement::DefineMacro(index) => self.macros[*index] = true,
            Statement::Do(call) => drop(self.value(call, engine)?),
            Statement::Continue => return Ok(Flow::Continue),
            Statement::Break => return Ok(Flow::Break),
        }
        Ok(Flow::Onward)
    }

    fn repeat(&mut self, repeated: &'p For, engine: &mut State<'_, '_>, out: &mut String) -> Outcome<Flow> {
        let mut items: Vec<Value> = match self.value(&repeated.items, engine)? {
            undefined if undefined.is_undefined() => Vec::new(),
            items => items.try_iter()?.collect(),
        };
        if items.iter().any(|item| item.kind() == ValueKind::Invalid) {
            return Err(LeftToEngine);
        }
        let outer = self.frame.replace(self.locals.len());
        let frame = self.locals.len();
        if let Some(filter) = &repeated.filter {
            let mut kept = Vec::new();
            for item in items {
                self.locals.truncate(frame);
                self.bind(&repeated.targets, item.clone())?;
                if self.truth(filter, engine)? {
                    kept.push(item);
                }
            }
            items = kept;
        }
        let count = items.len();
        self.loops.push(Loop { items, index: 0 });
        for index in 0..count {
            self.locals.truncate(frame);
            let Some(current) = self.loops.last_mut() else { break };
            current.index = index;
            let item = current.items[index].clone();
            self.bind(&repeated.targets, item)?;
            if self.statements(&repeated.body, engine, out)? == Flow::Break {
                break;
            }
        }
        self.loops.pop();
        self.locals.truncate(frame);
        self.frame = outer;
        let otherwise: &[Statement] = if count == 0 { &repeated.otherwise } else { &[] };
        self.statements(otherwise, engine, out)
    }

    fn bind(&mut self, names: &[Name], value: Value) -> Outcome<()> {
        if let [name] = names {
            self.set(*name, value);
            return Ok(());
        }
        let values: Vec<Value> = value.try_iter()?.collect();
        if values.len() != names.len() {
            return Err(LeftToEngine);
        }
        names.iter().zip(values).for_each(|(name, value)| self.set(*name, value));
        Ok(())
    }

    fn set(&mut self, name: Name, value: Value) {
        match self.frame {
            None => self.globals.to_mut()[name] = value,
            Some(frame) => match self.locals[frame..].iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => self.locals.push((name, value)),
            },
        }
    }

    fn variable(&self, name: Name) -> &Value {
        let local = self.locals.iter().rev().find(|(known, _)| *known == name);
        local.map_or(&self.globals[name], |(_, value)| value)
    }

    fn emit(&self, expression: &'p Expression, engine: &mut State<'_, '_>, out: &mut String) -> Outcome<()> {
        if let Expression::Join(texts) = expression {
            return self.join(texts, engine, out);
        }
        if let Some(text) = self.place(expression).and_then(Value::as_str) {
            out.push_str(text);
            return Ok(());
        }
        let value = self.value(expression, engine)?;
        if value.kind() == ValueKind::Invalid {
            return Err(LeftToEngine);
        }
        out.push_str(&python_str(&value));
        Ok(())
    }

    fn join(&self, texts: &'p [Expression], engine: &mut State<'_, '_>, out: &mut String) -> Outcome<()> {
        for text in texts {
            match self.place(text) {
                Some(value) => out.push_str(value.as_str().ok_or(LeftToEngine)?),
                None => out.push_str(self.value(text, engine)?.as_str().ok_or(LeftToEngine)?),
            }
        }
        Ok(())
    }

    /// Whether an expression is true, without making a value of it where it is a condition.
    fn truth(&self, expression: &'p Expression, engine: &mut State<'_, '_>) -> Outcome<bool> {
        match expression {
            Expression::Compare(first, others) => self.compare(first, others, engine),
            Expression::Not(operand) => Ok(!self.truth(operand, engine)?),
            Expression::And(left, right) => Ok(self.truth(left, engine)? && self.truth(right, engine)?),
            Expression::Or(left, right) => Ok(self.truth(left, engine)? || self.truth(right, engine)?),
            Expression::Test(name, arguments) => self.test(name, arguments, engine),
            Expression::Loop(LoopField::First) => Ok(self.innermost()?.index == 0),
            Expression::Loop(LoopField::Last) => self.innermost().map(|inner| inner.index + 1 == inner.items.len()),
            other => match self.place(other) {
                Some(value) => Ok(value.is_true()),
                None => Ok(self.value(other, engine)?.is_true()),
            },
        }
    }

    /// The value that stands somewhere already: that of a variable, or a field of one. `None` says nothing.
    fn place<'r>(&'r self, expression: &'p Expression) -> Option<&'r Value> {
        match expression {
            Expression::Constant(value) => Some(value),
            Expression::Variable(name) => Some(self.variable(*name)),
            Expression::Attribute(base, name) => Some(as_object(self.place(base)?)?.field(name).unwrap_or(&UNDEFINED)),
            Expression::Item(base, key) => {
                let (base, key) = (self.place(base)?, self.place(key)?);
                match (as_object(base), key.as_str()) {
                    (Some(fields), Some(name)) => Some(fields.field(name).unwrap_or(&UNDEFINED)),
                    (None, None) => {
                        let items: &Vec<Value> = base.downcast_object_ref()?;
                        items.get(usize::try_from(integer(key)?).ok()?)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn value<'r>(&'r self, expression: &'p Expression, engine: &mut State<'_, '_>) -> Outcome<Cow<'r, Value>> {
        let owned = match expression {
            Expression::Constant(value) => return Ok(Cow::Borrowed(value)),
            Expression::Variable(name) => return Ok(Cow::Borrowed(self.variable(*name))),
            Expression::Attribute(base, name) => match self.place(expression) {
                Some(value) => return Ok(Cow::Borrowed(value)),
                None => self.value(base, engine)?.get_attr(name)?,
            },
            Expression::Item(base, key) => match self.place(expression) {
                Some(value) => return Ok(Cow::Borrowed(value)),
                None => {
                    let base = self.value(base, engine)?;
                    base.get_item(&*self.value(key, engine)?)?
                }
            },
            Expression::Either(parts) => {
                let [test, then, otherwise] = &**parts;
                let chosen = if self.truth(test, engine)? { then } else { otherwise };
                return self.value(chosen, engine);
            }
            Expression::And(left, right) | Expression::Or(left, right) => {
                let left = self.value(left, engine)?;
                let decides = left.is_true() == matches!(expression, Expression::Or(..));
                return if decides { Ok(left) } else { self.value(right, engine) };
            }
            Expression::Loop(field) => self.loop_field(*field)?,
            Expression::Join(texts) => {
                let mut text = String::new();
                self.join(texts, engine, &mut text)?;
                text.into()
            }
            Expression::Difference(left, right) => {
                let (left, right) = (self.value(left, engine)?, self.value(right, engine)?);
                match (integer(&left), integer(&right)) {
                    (Some(left), Some(right)) => left.checked_sub(right).ok_or(LeftToEngine)?.into(),
                    _ => by_engine("a - b", [left.into_owned(), right.into_owned()], engine)?,
                }
            }
            Expression::Engine(written, operands) => {
                let operands = self.values(operands, engine)?;
                by_engine(written, operands, engine)?
            }
            Expression::Add(left, right) => self.sum(left, right, engine)?,
            Expression::Compare(first, others) => self.compare(first, others, engine)?.into(),
            Expression::Not(operand) => (!self.truth(operand, engine)?).into(),
            Expression::Filter(name, arguments) => {
                let arguments = self.arguments(arguments, engine)?;
                engine.apply_filter(name, &arguments)?
            }
            Expression::Test(name, arguments) => self.test(name, arguments, engine)?.into(),
            Expression::Function(name, arguments) => {
                let arguments = self.arguments(arguments, engine)?;
                self.variable(*name).call(engine, &arguments)?
            }
            Expression::Macro(index, arguments) => self.call_macro(*index, arguments, engine)?,
            Expression::Method(base, name, arguments) => {
                let base = self.value(base, engine)?;
                let arguments = self.arguments(arguments, engine)?;
                match base.as_str() {
                    // No object with methods of its own, which the engine would ask first.
                    Some(_) => call_method(engine, &base, name, &arguments)?,
                    None => base.call_method(engine, name, &arguments)?,
                }
            }
            Expression::Namespace(arguments) => {
                let named = arguments.named.iter();
                let fields = named.map(|(name, value)| Ok((name.clone(), self.value(value, engine)?.into_owned())));
                Value::from_object(Namespace(Mutex::new(fields.collect::<Outcome<_>>()?)))
            }
            Expression::List(items) => Value::from(self.values(items, engine)?),
            Expression::Map(fields) => {
                let field = |(key, value): &'p (Expression, Expression)| {
                    Ok((self.value(key, engine)?.into_owned(), self.value(value, engine)?.into_owned()))
                };
                Value::from_pairs(fields.iter().map(field).collect::<Outcome<Vec<_>>>()?)
            }
        };
        Ok(Cow::Owned(owned))
    }

    fn values(&self, expressions: &'p [Expression], engine: &mut State<'_, '_>) -> Outcome<Vec<Value>> {
        expressions.iter().map(|expression| Ok(self.value(expression, engine)?.into_owned())).collect()
    }

    fn arguments(&self, arguments: &'p Arguments, engine: &mut State<'_, '_>) -> Outcome<Vec<Value>> {
        let mut values = self.values(&arguments.positional, engine)?;
        if !arguments.named.is_empty() {
            let named = arguments.named.iter();
            let named = named.map(|(name, value)| Ok((&**name, self.value(value, engine)?.into_owned())));
            values.push(named.collect::<Outcome<Kwargs>>()?.into());
        }
        Ok(values)
    }

    fn innermost(&self) -> Outcome<&Loop> {
        self.loops.last().ok_or(LeftToEngine)
    }

    fn loop_field(&self, field: LoopField) -> Outcome<Value> {
        let Loop { items, index } = self.innermost()?;
        let item = |index: Option<usize>| index.and_then(|index| items.get(index)).cloned().unwrap_or_default();
        Ok(match field {
            LoopField::Index => (index + 1).into(),
            LoopField::Index0 => (*index).into(),
            LoopField::First => (*index == 0).into(),
            LoopField::Last => (index + 1 == items.len()).into(),
            LoopField::Length => items.len().into(),
            LoopField::Previous => item(index.checked_sub(1)),
            LoopField::Next => item(Some(index + 1)),
        })
    }

    fn sum(&self, left: &'p Expression, right: &'p Expression, engine: &mut State<'_, '_>) -> Outcome<Value> {
        let (left, right) = (self.value(left, engine)?, self.value(right, engine)?);
        if let (Some(left), Some(right)) = (left.as_str(), right.as_str()) {
            return Ok([left, right].concat().into());
        }
        if let (Some(left), Some(right)) = (integer(&left), integer(&right)) {
            return Ok(left.checked_add(right).ok_or(LeftToEngine)?.into());
        }
        by_engine("a + b", [left.into_owned(), right.into_owned()], engine)
    }

    fn compare(
        &self,
        first: &'p Expression,
        others: &'p [(Comparison, Expression)],
        engine: &mut State<'_, '_>,
    ) -> Outcome<bool> {
        if let [(Comparison::Equal | Comparison::NotEqual, second)] = others
            && let (Some(left), Some(right)) = (self.place(first), self.place(second))
        {
            return Ok(equal(left, right) == matches!(others[0].0, Comparison::Equal));
        }
        let mut left = self.value(first, engine)?;
        for (comparison, right) in others {
            let right = self.value(right, engine)?;
            let holds = match comparison {
                Comparison::Equal => equal(&left, &right),
                Comparison::NotEqual => !equal(&left, &right),
                Comparison::Less => left < right,
                Comparison::LessOrEqual => left <= right,
                Comparison::Greater => left > right,
                Comparison::GreaterOrEqual => left >= right,
                Comparison::In => contains(&right, &left, engine)?,
                Comparison::NotIn => !contains(&right, &left, engine)?,
            };
            if !holds {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn test(&self, name: &str, arguments: &'p Arguments, engine: &mut State<'_, '_>) -> Outcome<bool> {
        if let ([tested], []) = (&*arguments.positional, &*arguments.named) {
            return match self.place(tested) {
                Some(tested) => passes(name, tested, engine),
                None => passes(name, &*self.value(tested, engine)?, engine),
            };
        }
        let arguments = self.arguments(arguments, engine)?;
        Ok(engine.perform_test(name, &arguments)?)
    }

    fn call_macro(&self, index: usize, arguments: &'p Arguments, engine: &mut State<'_, '_>) -> Outcome<Value> {
        let Macro { parameters, body, .. } = &self.program.macros[index];
        let known = |name: &str| parameters.iter().skip(arguments.positional.len()).any(|(_, own, _)| **own == *name);
        let fits =
            arguments.positional.len() <= parameters.len() && arguments.named.iter().all(|(name, _)| known(name));
        if !self.macros[index] || !fits || self.depth == DEPTH {
            return Err(LeftToEngine);
        }
        let mut run = Run {
            program: self.program,
            globals: Cow::Borrowed(&*self.globals),
            locals: Vec::with_capacity(parameters.len()),
            frame: Some(0),
            loops: Vec::new(),
            macros: self.macros.clone(),
            depth: self.depth + 1,
        };
        for (place, (name, spelled, default)) in parameters.iter().enumerate() {
            let named = || arguments.named.iter().find(|(named, _)| named == spelled).map(|(_, value)| value);
            let value = match (arguments.positional.get(place).or_else(named), default) {
                (Some(given), _) => self.value(given, engine)?.into_owned(),
                (None, Some(default)) => run.value(default, engine)?.into_owned(),
                (None, None) => Value::UNDEFINED,
            };
            run.locals.push((*name, value));
        }
        let mut out = String::new();
        run.statements(body, engine, &mut out)?;
        Ok(out.into())
    }
}

static UNDEFINED: Value = Value::UNDEFINED;

/// Whether a value passes a test without arguments.
fn passes(test: &str, value: &Value, engine: &mut State<'_, '_>) -> Outcome<bool> {
    Ok(match test {
        "defined" => !value.is_undefined(),
        "undefined" => value.is_undefined(),
        "none" => value.is_none(),
        "string" => value.kind() == ValueKind::String,
        "mapping" => value.kind() == ValueKind::Map,
        _ => engine.perform_test(test, std::slice::from_ref(value))?,
    })
}

/// Texts are most of what templates compare.
fn equal(left: &Value, right: &Value) -> bool {
    match (left.as_str(), right.as_str()) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

fn contains(container: &Value, value: &Value, engine: &mut State<'_, '_>) -> Outcome<bool> {
    if let (Some(container), Some(value)) = (container.as_str(), value.as_str()) {
        return Ok(container.contains(value));
    }
    if let (Some(container), Some(name)) = (as_object(container), value.as_str()) {
        return Ok(container.field(name).is_some());
    }
    Ok(by_engine("a in b", [value.clone(), container.clone()], engine)?.is_true())
}

/// An integer; what is true or false counts as none.
fn integer(value: &Value) -> Option<i64> {
    value.is_integer().then(|| value.as_i64()).flatten()
}

/// An operation that the engine does, with `a`, `b`, `c` and `d` for its operands.
fn by_engine(
    written: &'static str,
    operands: impl IntoIterator<Item = Value>,
    engine: &State<'_, '_>,
) -> Outcome<Value> {
    let operands = Value::from_pairs(["a", "b", "c", "d"].into_iter().zip(operands));
    Ok(engine.env().compile_expression(written)?.eval(operands)?)
}

/// What `namespace` makes: fields that a template may set.
#[derive(Debug)]
struct Namespace(Mutex<Vec<(Box<str>, Value)>>);

impl Namespace {
    fn set(&self, name: &str, value: Value) {
        let mut fields = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match fields.iter_mut().find(|(known, _)| **known == *name) {
            Some(known) => known.1 = value,
            None => fields.push((name.into(), value)),
        }
    }
}

impl Object for Namespace {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let fields = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fields.iter().find(|(name, _)| **name == *key).map(|(_, value)| value.clone())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let fields = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Enumerator::Values(fields.iter().map(|(name, _)| Value::from(&**name)).collect())
    }
}
